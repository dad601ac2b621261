import { createHash } from 'node:crypto'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { FakeCall } from '../../src/fake-llm/call.ts'
import { DEFAULT_OPTIONS, type FakeLlmOptions } from '../../src/fake-llm/flags.ts'
import { respondTo } from '../../src/fake-llm/respond.ts'
import { type Kind, sendPattern } from '../support/proxy/pattern.ts'
import { Random } from '../support/random/random.ts'
import type { Owner } from '../support/service/running.ts'
import { BackendHolds } from './backend-holds.ts'

/** Tells the backend what to do with a request. */
export const PLAY_FIELD = 'x-soak-play'
/** Names a request, so that its client can wait until it has come. */
export const ID_FIELD = 'x-soak-id'

/** The fake LLM, where each request says how it is to be answered; for other paths a server that says how much it got; and an echo for upgrades. */
export class SoakBackend {
  readonly #server: Server
  readonly holds = new BackendHolds()
  readonly #random = new Random(1)
  readonly #arrivals = new Map<string, () => void>()

  private constructor() {
    this.#server = createServer({ keepAliveTimeout: 75_000, requestTimeout: 0 }, (req, res) => void this.#handle(req, res))
    this.#server.on('upgrade', (_req, socket: Socket) => echo(socket))
  }

  static async start(owner: Owner): Promise<SoakBackend> {
    const backend = new SoakBackend()
    await new Promise<void>((resolve) => {
      backend.#server.listen(0, '127.0.0.1', resolve)
    })
    owner.onTestFinished(() => backend.#close())
    return backend
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  /** Done when this request and its body are here. */
  arrival(id: string): Promise<void> {
    return new Promise((resolve) => {
      this.#arrivals.set(id, resolve)
    })
  }

  /** Nobody waits for it any more. */
  forget(id: string): void {
    this.#arrivals.delete(id)
  }

  async #handle(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const play = JSON.parse(String(req.headers[PLAY_FIELD] ?? '{}')) as Partial<FakeLlmOptions>
    const call = new FakeCall(req, res, { ...DEFAULT_OPTIONS, ...play })
    try {
      call.request.body = await buffer(req)
      this.#arrivals.get(String(req.headers[ID_FIELD]))?.()
      if (req.url!.startsWith('/v1/')) await respondTo(call)
      else if (req.url === '/free/pattern') await this.#sendPattern(req, res)
      else if (req.url === '/free/digest') res.end(createHash('sha256').update(call.request.body).digest('hex'))
      else if (req.url === '/held') await this.holds.hold(req, res, call.options.delayMs)
      else if (play.fail === 'reset') res.socket!.resetAndDestroy()
      else if (play.fail === 'status') res.writeHead(500).end()
      else res.end(`got ${call.request.body.length} bytes`)
    } catch {
      // Whoever asked is gone.
      res.destroy()
    }
  }

  async #sendPattern({ headers }: IncomingMessage, res: ServerResponse): Promise<void> {
    await sendPattern(res, headers['x-kind'] as Kind, String(headers['x-client']), Number(headers['x-events']), this.#random)
  }

  #close(): Promise<void> {
    return new Promise((resolve) => {
      this.#server.close(() => resolve())
      this.#server.closeAllConnections()
    })
  }
}

function echo(socket: Socket): void {
  socket.on('error', () => {}) // its 'close' follows
  socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
  socket.pipe(socket)
}
