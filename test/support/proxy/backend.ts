import { createServer as createHttpServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { thisTest } from '../service/running.ts'

/** A request as it came to a backend. */
export interface SeenRequest {
  readonly method: string
  readonly url: string
  /** Names and values in turn, as they came. */
  readonly rawHeaders: readonly string[]
  readonly headers: IncomingMessage['headers']
  /** The connection's number, from 1. */
  readonly connection: number
  /** The body, when all of it has come. Rejects when the client goes away before. */
  body(): Promise<Buffer>
  /** The connection broke before the answer was out. */
  isAborted: boolean
}

export type Handler = (req: IncomingMessage, res: ServerResponse, seen: SeenRequest) => void | Promise<void>

/** A real HTTP server with a record of what came. */
export class HttpBackend {
  readonly seen: SeenRequest[] = []
  connections = 0
  openConnections = 0
  readonly #server = createHttpServer({ keepAliveTimeout: 60_000 }, (req, res) => this.#handle(req, res))
  readonly #numbers = new WeakMap<Socket, number>()
  handler: Handler

  private constructor(handler: Handler) {
    this.handler = handler
    // A proxy before it must not make it wait, nor hide what it gets.
    this.#server.requestTimeout = 0
    this.#server.on('connection', (socket: Socket) => {
      this.#numbers.set(socket, ++this.connections)
      this.openConnections++
      socket.on('close', () => this.openConnections--)
    })
  }

  /** For as long as the test runs. */
  static async start(handler?: Handler, port = 0, owner = thisTest): Promise<HttpBackend> {
    const backend = await HttpBackend.listen(handler, port)
    owner.onTestFinished(() => backend.close())
    return backend
  }

  static async listen(handler: Handler = answerHello, port = 0): Promise<HttpBackend> {
    const backend = new HttpBackend(handler)
    await listen(backend.#server, port)
    return backend
  }

  close(): Promise<void> {
    return closeServer(this.#server, () => this.#server.closeAllConnections())
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`
  }

  /** What is common to all servers of `node:http`, for upgrades and the like. */
  get server(): ReturnType<typeof createHttpServer> {
    return this.#server
  }

  /** The one request that came. */
  get only(): SeenRequest {
    if (this.seen.length !== 1) throw new Error(`${this.seen.length} requests came, not one`)
    return this.seen[0]!
  }

  #handle(req: IncomingMessage, res: ServerResponse): void {
    const seen = newSeenRequest(req, this.#numbers.get(req.socket)!)
    res.on('close', () => {
      if (!res.writableFinished) seen.isAborted = true
    })
    this.seen.push(seen)
    void Promise.resolve(this.handler(req, res, seen)).catch((error: unknown) => res.destroy(error as Error))
  }
}

/** Reads the request to its end, then answers 200. */
export async function answerHello(_req: IncomingMessage, res: ServerResponse, seen: SeenRequest): Promise<void> {
  await seen.body().catch(() => {})
  res.end('hello')
}

/** One connection to a backend that speaks in bytes. */
export interface RawConnection {
  readonly socket: Socket
  /** Everything that came, a character a byte. */
  received: string
  /** Heads that came whole. */
  heads: number
  isClosed: boolean
}

/** Called for each head that came, with its number on all connections, from 0. */
export type Script = (connection: RawConnection, index: number) => void

/** A backend that sends the bytes that it is told to send. */
export class RawBackend {
  readonly connections: RawConnection[] = []
  readonly #server: Server
  #heads = 0
  /** What it does from now on. */
  script: Script

  private constructor(script: Script, onConnection?: (socket: Socket) => void) {
    this.script = script
    this.#server = createServer({ allowHalfOpen: true }, (socket) => {
      const connection: RawConnection = { socket, received: '', heads: 0, isClosed: false }
      this.connections.push(connection)
      socket.on('error', () => {}) // its 'close' follows
      socket.on('close', () => {
        connection.isClosed = true
      })
      socket.on('end', () => socket.end())
      socket.on('data', (chunk: Buffer) => {
        connection.received += chunk.toString('latin1')
        const heads = connection.received.split('\r\n\r\n').length - 1
        while (connection.heads < heads) {
          connection.heads++
          this.script(connection, this.#heads++)
        }
      })
      onConnection?.(socket)
    })
  }

  /** For as long as the test runs. `onConnection` may speak or close before anything was said. */
  static async start(script: Script, onConnection?: (socket: Socket) => void, owner = thisTest): Promise<RawBackend> {
    const backend = new RawBackend(script, onConnection)
    await listen(backend.#server)
    owner.onTestFinished(() => backend.close())
    return backend
  }

  /** Answers each head with the next of these, and the last of them for ever. */
  static saying(...answers: readonly (string | Buffer)[]): Promise<RawBackend> {
    return RawBackend.start(({ socket }, index) => {
      const answer = answers[Math.min(index, answers.length - 1)]!
      socket.write(typeof answer === 'string' ? Buffer.from(answer, 'latin1') : answer)
    })
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`
  }

  /** Heads that came, on all connections. */
  get heads(): number {
    return this.#heads
  }

  /** All that came, one connection after the other. */
  get received(): string {
    return this.connections.map(({ received }) => received).join('')
  }

  get openConnections(): number {
    return this.connections.filter(({ isClosed }) => !isClosed).length
  }

  /** Accepts nothing more; connections that are there stay. */
  stopListening(): void {
    this.#server.close()
  }

  close(): Promise<void> {
    return closeServer(this.#server, () => {
      for (const { socket } of this.connections) socket.destroy()
    })
  }
}

function listen(server: Server, port = 0): Promise<void> {
  return new Promise((resolve) => {
    server.listen(port, '127.0.0.1', resolve)
  })
}

function closeServer(server: Server, cut: () => void): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve())
    cut()
  })
}

function newSeenRequest(req: IncomingMessage, connection: number): SeenRequest {
  let body: Promise<Buffer> | undefined
  return {
    method: req.method!,
    url: req.url!,
    rawHeaders: req.rawHeaders,
    headers: req.headers,
    connection,
    body: () => {
      body ??= collect(req)
      return body
    },
    isAborted: false,
  }
}

function collect(req: IncomingMessage): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    req.on('data', (chunk: Buffer) => chunks.push(chunk))
    req.on('end', () => resolve(Buffer.concat(chunks)))
    req.on('error', reject)
  })
}
