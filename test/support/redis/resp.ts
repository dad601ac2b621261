import { createConnection, type NetConnectOpts, type Socket } from 'node:net'

/** The reply to a command; an error reply is thrown. */
export type RedisReply = string | number | null | readonly RedisReply[]

interface Waiting {
  resolve(reply: RedisReply): void
  reject(error: Error): void
}

/** A connection that sends commands as they are given, each once. */
export class RespConnection {
  readonly #socket: Socket
  readonly #waiting: Waiting[] = []
  #bytes = Buffer.alloc(0)

  private constructor(socket: Socket) {
    this.#socket = socket
    socket.on('data', (chunk) => this.#take(chunk))
    socket.on('error', () => {}) // its 'close' follows
    socket.on('close', () => {
      for (const { reject } of this.#waiting.splice(0)) reject(new Error('the connection to Redis broke'))
    })
  }

  static connect(to: NetConnectOpts): Promise<RespConnection> {
    return new Promise((resolve, reject) => {
      const socket = createConnection(to)
      socket.once('error', reject)
      socket.once('connect', () => {
        socket.off('error', reject)
        resolve(new RespConnection(socket))
      })
    })
  }

  get isOpen(): boolean {
    return this.#socket.writable
  }

  command(...args: readonly (string | number)[]): Promise<RedisReply> {
    return new Promise((resolve, reject) => {
      if (!this.isOpen) throw new Error('the connection to Redis is closed')
      this.#waiting.push({ resolve, reject })
      this.#socket.write(encode(args))
    })
  }

  close(): void {
    this.#socket.destroy()
  }

  #take(chunk: Buffer): void {
    this.#bytes = Buffer.concat([this.#bytes, chunk])
    let parsed = parse(this.#bytes, 0)
    while (parsed !== undefined) {
      this.#bytes = this.#bytes.subarray(parsed.end)
      const { resolve, reject } = this.#waiting.shift()!
      if (parsed.reply instanceof Error) reject(parsed.reply)
      else resolve(parsed.reply)
      parsed = parse(this.#bytes, 0)
    }
  }
}

function encode(args: readonly (string | number)[]): string {
  const parts = args.map((arg) => `$${Buffer.byteLength(String(arg))}\r\n${arg}\r\n`)
  return `*${args.length}\r\n${parts.join('')}`
}

/** Nothing while the reply is not all there. */
function parse(bytes: Buffer, start: number): { reply: RedisReply | Error; end: number } | undefined {
  const lineEnd = bytes.indexOf('\r\n', start)
  if (lineEnd < 0) return
  const text = bytes.toString('utf8', start + 1, lineEnd)
  const end = lineEnd + 2
  switch (String.fromCharCode(bytes[start]!)) {
    case '+':
      return { reply: text, end }
    case '-':
      return { reply: new Error(text), end }
    case ':':
      return { reply: Number(text), end }
    case '$':
      return parseBulk(bytes, end, Number(text))
    case '*':
      return parseArray(bytes, end, Number(text))
    default:
      throw new Error(`not a reply of RESP 2: ${bytes.toString('latin1', start, lineEnd)}`)
  }
}

function parseBulk(bytes: Buffer, start: number, length: number): { reply: RedisReply; end: number } | undefined {
  if (length < 0) return { reply: null, end: start }
  if (bytes.length < start + length + 2) return
  return { reply: bytes.toString('utf8', start, start + length), end: start + length + 2 }
}

function parseArray(bytes: Buffer, start: number, length: number): { reply: RedisReply; end: number } | undefined {
  if (length < 0) return { reply: null, end: start }
  const replies: RedisReply[] = []
  let end = start
  while (replies.length < length) {
    const item = parse(bytes, end)
    if (item === undefined) return
    replies.push(item.reply instanceof Error ? item.reply.message : item.reply)
    end = item.end
  }
  return { reply: replies, end }
}
