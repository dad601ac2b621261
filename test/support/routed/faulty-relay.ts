import { connect, createServer, type Server, type Socket } from 'node:net'
import { type Owner, thisTest } from '../service/running.ts'
import { serverPort } from '../service/server-port.ts'

/** What a relay does with a request and its answer. */
export type Fate =
  | { readonly do: 'pass' }
  /** The connection is reset after so many bytes of the answer. With 0 the backend has answered, and nothing of it arrives. */
  | { readonly do: 'cut'; readonly afterBytes: number }
  /** The backend gets the request this much later. */
  | { readonly do: 'delay'; readonly ms: number }
  /** The backend never sees it; this is the answer, with a Retry-After if it is 429 or 503. */
  | { readonly do: 'answer'; readonly status: number; readonly retryAfterS: number }
  /** Nothing ever happens. */
  | { readonly do: 'swallow' }

/** A request that has passed a relay. */
export interface Attempt {
  readonly backend: string
  /** The request's X-Marker, which says whose request it is. */
  readonly marker: string
  readonly body: Buffer
  readonly fate: Fate
  /** The status of an answer whose whole head was sent back. */
  status: number | undefined
  /** Bytes of the answer that were sent back. */
  answerBytes: number
}

export type FateOf = (request: Pick<Attempt, 'backend' | 'marker'>) => Fate

interface RelayParts {
  readonly backend: string
  readonly target: number
  readonly fateOf: FateOf
  /** What has passed, of all relays that share it, in the order in which it came. */
  readonly attempts: Attempt[]
}

/** A relay for as long as the test runs. */
export async function relayTo(parts: RelayParts, owner: Owner = thisTest): Promise<FaultyRelay> {
  const relay = new FaultyRelay(parts, await serverPort())
  await relay.accept()
  owner.onTestFinished(() => relay.close())
  return relay
}

/** Stands between a proxy and a backend, notes every request, and spoils some of the answers. */
export class FaultyRelay {
  readonly port: number
  readonly #parts: RelayParts
  readonly #open = new Set<Socket>()
  #server: Server | undefined

  constructor(parts: RelayParts, port: number) {
    this.#parts = parts
    this.port = port
  }

  get backend(): string {
    return this.#parts.backend
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`
  }

  /** Listens, on the same port as before. */
  async accept(): Promise<void> {
    if (this.#server !== undefined) return
    const server = createServer({ noDelay: true }, (proxy) => {
      this.#open.add(proxy)
      proxy.on('close', () => this.#open.delete(proxy))
      new RelayedConnection(this, proxy, connect({ port: this.#parts.target, host: '127.0.0.1', noDelay: true }))
    })
    this.#server = server
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject).listen(this.port, '127.0.0.1', resolve)
    })
  }

  /** Connections are refused, and those that are open are reset, as when a machine goes down. */
  refuse(): void {
    this.#server?.close()
    this.#server = undefined
    for (const proxy of this.#open) proxy.resetAndDestroy()
  }

  close(): void {
    this.refuse()
  }

  note(marker: string, body: Buffer): Attempt {
    const { backend, fateOf, attempts } = this.#parts
    const attempt = { backend, marker, body, fate: fateOf({ backend, marker }), status: undefined, answerBytes: 0 }
    attempts.push(attempt)
    return attempt
  }
}

/** One connection of the proxy's, and the one to the backend that belongs to it. Requests come one after the other on it. */
class RelayedConnection {
  readonly #relay: FaultyRelay
  readonly #proxy: Socket
  readonly #backend: Socket
  #unread = Buffer.alloc(0)
  #attempt: Attempt | undefined
  /** The beginning of the answer, until its head is whole. */
  #head = Buffer.alloc(0)

  constructor(relay: FaultyRelay, proxy: Socket, backend: Socket) {
    this.#relay = relay
    this.#proxy = proxy
    this.#backend = backend
    for (const socket of [proxy, backend]) socket.on('error', () => {}) // its 'close' follows
    proxy.on('data', (bytes) => this.#read(bytes))
    backend.on('data', (bytes) => this.#answer(bytes))
    proxy.on('close', () => backend.destroy())
    // A process that was killed resets its connections; one that ends them in order has said all.
    backend.on('end', () => proxy.destroySoon())
    backend.on('close', (hadError) => (hadError ? proxy.resetAndDestroy() : proxy.destroySoon()))
  }

  #read(bytes: Buffer): void {
    this.#unread = Buffer.concat([this.#unread, bytes])
    for (;;) {
      const headEnd = this.#unread.indexOf('\r\n\r\n') + 4
      if (headEnd < 4) return
      const head = this.#unread.toString('latin1', 0, headEnd)
      const length = headEnd + Number(field(head, 'content-length') ?? 0)
      if (this.#unread.length < length) return
      const request = Buffer.from(this.#unread.subarray(0, length))
      this.#unread = this.#unread.subarray(length)
      this.#take(request, request.subarray(headEnd), field(head, 'x-marker') ?? '')
    }
  }

  #take(request: Buffer, body: Buffer, marker: string): void {
    const attempt = this.#relay.note(marker, body)
    const { fate } = attempt
    this.#attempt = attempt
    this.#head = Buffer.alloc(0)
    if (fate.do === 'swallow') return
    if (fate.do === 'answer') {
      const text = JSON.stringify({ error: { message: 'no', type: 'error', param: null, code: null } })
      const fields = `Content-Type: application/json\r\nContent-Length: ${text.length}\r\nRetry-After: ${fate.retryAfterS}\r\n`
      this.#answer(Buffer.from(`HTTP/1.1 ${fate.status} Spoilt\r\n${fields}\r\n${text}`))
    } else if (fate.do === 'delay') setTimeout(() => this.#backend.write(request), fate.ms)
    else this.#backend.write(request)
  }

  #answer(bytes: Buffer): void {
    const attempt = this.#attempt
    if (attempt === undefined || this.#proxy.destroyed) return
    const left = attempt.fate.do === 'cut' ? attempt.fate.afterBytes - attempt.answerBytes : bytes.length
    const part = bytes.subarray(0, left)
    attempt.answerBytes += part.length
    if (attempt.status === undefined) this.#noteHead(attempt, part)
    this.#proxy.write(part)
    // On loopback what was written has arrived by now.
    if (attempt.fate.do === 'cut' && attempt.answerBytes === attempt.fate.afterBytes) {
      this.#attempt = undefined
      this.#proxy.resetAndDestroy()
    }
  }

  #noteHead(attempt: Attempt, part: Buffer): void {
    this.#head = Buffer.concat([this.#head, part])
    if (this.#head.includes('\r\n\r\n')) attempt.status = Number(this.#head.toString('latin1', 9, 12))
  }
}

function field(head: string, name: string): string | undefined {
  return new RegExp(`\r\n${name}: *([^\r]*)\r\n`, 'i').exec(head)?.[1]
}
