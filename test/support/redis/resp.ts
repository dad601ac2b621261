import { createConnection, type NetConnectOpts, type Socket } from 'node:net'
import type { Script, ScriptArgument } from '../../../src/store/redis/link/call.ts'

/** The reply to a command; an error reply is thrown. */
export type RedisReply = string | number | null | readonly RedisReply[]

type CommandPart = string | number | Buffer

interface Waiting {
  /** Whether a string in the reply consists of packed doubles. */
  readonly isPacked: boolean
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
    return this.#send(args, false)
  }

  /** Runs a script that Redis knows, as the product does. */
  run({ sha, repliesNumbers = false }: Script, keys: readonly string[], args: readonly ScriptArgument[]): Promise<RedisReply> {
    return this.#send(
      ['EVALSHA', sha, keys.length, ...keys, ...args.map((arg) => (typeof arg === 'string' ? arg : packed(arg)))],
      repliesNumbers,
    )
  }

  close(): void {
    this.#socket.destroy()
  }

  #send(parts: readonly CommandPart[], isPacked: boolean): Promise<RedisReply> {
    return new Promise((resolve, reject) => {
      if (!this.isOpen) throw new Error('the connection to Redis is closed')
      this.#waiting.push({ resolve, reject, isPacked })
      this.#socket.write(encode(parts))
    })
  }

  #take(chunk: Buffer): void {
    this.#bytes = Buffer.concat([this.#bytes, chunk])
    for (;;) {
      const parsed = parse(this.#bytes, 0, this.#waiting[0]?.isPacked ?? false)
      if (parsed === undefined) return
      this.#bytes = this.#bytes.subarray(parsed.end)
      const { resolve, reject } = this.#waiting.shift()!
      if (parsed.reply instanceof Error) reject(parsed.reply)
      else resolve(parsed.reply)
    }
  }
}

function encode(parts: readonly CommandPart[]): Buffer {
  const encoded = parts.flatMap((part) => {
    const bytes = Buffer.isBuffer(part) ? part : Buffer.from(String(part))
    return [Buffer.from(`$${bytes.length}\r\n`), bytes, Buffer.from('\r\n')]
  })
  return Buffer.concat([Buffer.from(`*${parts.length}\r\n`), ...encoded])
}

function packed(numbers: readonly number[]): Buffer {
  return Buffer.from(Float64Array.from(numbers).buffer)
}

/** Nothing while the reply is not all there. */
function parse(bytes: Buffer, start: number, isPacked: boolean): { reply: RedisReply | Error; end: number } | undefined {
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
      return parseBulk(bytes, end, Number(text), isPacked)
    case '*':
      return parseArray(bytes, end, Number(text), isPacked)
    default:
      throw new Error(`not a reply of RESP 2: ${bytes.toString('latin1', start, lineEnd)}`)
  }
}

function parseBulk(bytes: Buffer, start: number, length: number, isPacked: boolean): { reply: RedisReply; end: number } | undefined {
  if (length < 0) return { reply: null, end: start }
  if (bytes.length < start + length + 2) return
  const [from, end] = [start, start + length]
  const reply = isPacked ? [...new Float64Array(new Uint8Array(bytes.subarray(from, end)).buffer)] : bytes.toString('utf8', from, end)
  return { reply, end: end + 2 }
}

function parseArray(bytes: Buffer, start: number, length: number, isPacked: boolean): { reply: RedisReply; end: number } | undefined {
  if (length < 0) return { reply: null, end: start }
  const replies: RedisReply[] = []
  let end = start
  while (replies.length < length) {
    const item = parse(bytes, end, isPacked)
    if (item === undefined) return
    replies.push(item.reply instanceof Error ? item.reply.message : item.reply)
    end = item.end
  }
  return { reply: replies, end }
}
