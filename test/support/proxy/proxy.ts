import { writeFile } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import type { Writable } from 'node:stream'
import { bundle } from '../bundles/bundles.ts'
import type { Cli } from '../service/cli.ts'
import type { Edge, EdgeOptions } from '../service/edge.ts'
import { type Environment, running, scratchDirectory, serving, thisTest } from '../service/running.ts'
import { until } from '../until.ts'

/** What is not taken within so many turns of this process, in which all sides of a test live, is not going to be. */
const STUCK_POLLS = 20

/** Edge in reverse_proxy before this backend, for as long as the test runs. Without a bundle of its own, every request is allowed. */
export function proxying(backend: { readonly url: string }, options: EdgeOptions = {}, owner = thisTest): Promise<Edge> {
  return running(proxyOptions(backend, options), owner)
}

/** The same as a process: `edge serve`, where every request is allowed. */
export async function servingProxy(backend: { readonly url: string }, env: Environment = {}, owner = thisTest): Promise<Cli> {
  const path = join(await scratchDirectory(owner), 'bundle.json')
  await writeFile(path, JSON.stringify(bundle(1)))
  return serving({ ...proxyEnv(backend.url), EDGE_CONFIG_FILE: path, ...env }, [], owner)
}

export function proxyOptions(backend: { readonly url: string }, options: EdgeOptions = {}): EdgeOptions {
  return { bundle: bundle(1), ...options, env: { ...proxyEnv(backend.url), ...options.env } }
}

export function proxyEnv(backendUrl: string): Record<string, string> {
  return {
    EDGE_MODE: 'reverse_proxy',
    EDGE_BACKEND_URL: backendUrl,
    EDGE_SHUTDOWN_MS: '0',
    // By default they are some seconds, for which a busy machine may stand still.
    EDGE_BACKEND_CONNECT_TIMEOUT_MS: '60000',
    EDGE_BACKEND_QUEUE_MS: '60000',
  }
}

/** A client that writes bytes and sees bytes. */
export class RawClient {
  readonly socket: Socket
  /** What has come, a character a byte. */
  received = ''
  /** The other side has ended its side in peace. */
  hasEnded = false
  isClosed = false
  /** ECONNRESET, where the connection was not ended but broken off. */
  errorCode: string | undefined

  private constructor(port: number) {
    this.socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
    this.socket.setNoDelay(true)
    this.socket.on('data', (chunk: Buffer) => {
      this.received += chunk.toString('latin1')
    })
    this.socket.on('end', () => {
      this.hasEnded = true
      this.socket.end()
    })
    this.socket.on('error', ({ code }: NodeJS.ErrnoException) => {
      this.errorCode = code
    })
    this.socket.on('close', () => {
      this.isClosed = true
    })
  }

  /** For as long as the test runs. */
  static connect(port: number, owner = thisTest): RawClient {
    const client = new RawClient(port)
    owner.onTestFinished(() => void client.socket.destroy())
    return client
  }

  /** Writes a body of so many bytes, reads only then, and waits for the end. */
  async uploads(bytes: number): Promise<string> {
    this.socket.pause()
    this.send(`POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${bytes}\r\n\r\n`)
    this.send(Buffer.alloc(bytes))
    await until(() => this.socket.writableLength === 0)
    this.socket.resume()
    return this.closed()
  }

  send(bytes: string | Buffer): void {
    this.socket.write(typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes)
  }

  /** Waits until this has come. */
  async sees(text: string): Promise<void> {
    await until(() => this.received.includes(text) || this.#fail(text))
  }

  /** Waits until the connection is closed, however, and answers what came. */
  async closed(): Promise<string> {
    await until(() => this.isClosed)
    return this.received
  }

  /** Reads on to the end of the connection, keeps nothing, and returns how many bytes came. */
  async countsRest(): Promise<number> {
    const counted = this.#countsFromNow()
    await this.closed()
    return counted.bytes
  }

  /** Reads on, keeps nothing, and waits until more bytes than these have come. */
  async readsMoreThan(bytes: number): Promise<void> {
    const counted = this.#countsFromNow()
    await until(() => counted.bytes > bytes || this.#fail(`more than ${bytes} bytes, not ${counted.bytes}`))
  }

  #countsFromNow(): { readonly bytes: number } {
    const counted = { bytes: 0 }
    this.socket.removeAllListeners('data').on('data', (chunk: Buffer) => {
      counted.bytes += chunk.length
    })
    this.socket.resume()
    return counted
  }

  /** Waits for the next whole answer with a length, and takes it off what came. */
  async next(): Promise<RawAnswer> {
    let size: number | undefined
    await until(() => {
      const head = this.received.indexOf('\r\n\r\n')
      if (head < 0) return this.#fail('a head')
      const [, length] = /^Content-Length: (\d+)\r$/im.exec(this.received.slice(0, head + 1)) ?? []
      const status = statusOf(this.received)
      size = head + 4 + (status < 200 || status === 204 || status === 304 ? 0 : Number(length ?? 0))
      return this.received.length >= size || this.#fail('the rest of a body')
    })
    const answer = readAnswer(this.received.slice(0, size))
    this.received = this.received.slice(size)
    return answer
  }

  #fail(missing: string): false {
    if (this.isClosed) throw new Error(`the connection was closed before ${JSON.stringify(missing)} came, after ${this.received}`)
    return false
  }
}

export interface RawAnswer {
  readonly status: number
  /** The first line. */
  readonly line: string
  readonly fields: readonly (readonly [string, string])[]
  readonly body: string
}

/** Sends bytes on a connection of their own and answers what came until the other side closed. */
export async function askRaw(port: number, bytes: string | Buffer, owner = thisTest): Promise<RawAnswer> {
  return readAnswer(await answerBytes(port, bytes, owner))
}

export async function answerBytes(port: number, bytes: string | Buffer, owner = thisTest): Promise<string> {
  const client = RawClient.connect(port, owner)
  client.send(bytes)
  return client.closed()
}

export function readAnswer(text: string): RawAnswer {
  const end = text.indexOf('\r\n\r\n')
  const [line, ...lines] = text.slice(0, end).split('\r\n')
  const fields = lines.map((field) => field.split(/: ?(.*)/s, 2) as [string, string])
  return { status: statusOf(text), line: line!, fields, body: text.slice(end + 4) }
}

/** All values of a field, by its name in any case. */
export function valuesOf({ fields }: Pick<RawAnswer, 'fields'>, name: string): string[] {
  return fields.filter(([other]) => other.toLowerCase() === name.toLowerCase()).map(([, value]) => value)
}

/** The statuses of all answers, interim ones too. */
export function statusesIn(received: string): number[] {
  return (received.match(/HTTP\/1\.1 \d{3}[ \r]/g) ?? []).map(statusOf)
}

/** A raw list of names and values as pairs. */
export function pairs(rawHeaders: readonly string[]): [string, string][] {
  return rawHeaders.flatMap((name, i) => (i % 2 === 0 ? [[name, rawHeaders[i + 1]!] as [string, string]] : []))
}

function statusOf(text: string): number {
  return Number(text.slice(9, 12))
}

/**
 * Writes until nothing more is taken, by the other side or by any buffer on the way, whatever their sizes are, or until the connection is broken.
 * Returns how much was written.
 */
export async function writeUntilStuck(
  to: Pick<Writable, 'write' | 'writableLength' | 'destroyed'>,
  piece = Buffer.alloc(1 << 20, 'x'),
): Promise<number> {
  let [written, stuckFor, left]: [written: number, stuckFor: number, left: number] = [0, 0, 0]
  await until(() => {
    const { writableLength } = to
    stuckFor = writableLength > 0 && writableLength === left ? stuckFor + 1 : 0
    left = writableLength
    if (writableLength === 0) {
      to.write(piece)
      written += piece.length
    }
    return stuckFor >= STUCK_POLLS || to.destroyed
  })
  return written
}

/** A body in one chunk, with its end. */
export function inChunks(body: string): string {
  return `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`
}
