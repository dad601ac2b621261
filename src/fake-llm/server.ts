import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { FakeCall, type ReceivedRequest } from './call.ts'
import { openAiError } from './dialects/openai.ts'
import { FaultDice } from './faults.ts'
import { DEFAULT_OPTIONS, type FakeLlmOptions } from './flags.ts'
import { respond, respondTo } from './respond.ts'
import { ServedUsage } from './served-usage.ts'

export interface FakeLlmStart extends Partial<FakeLlmOptions> {
  /** Any free port if this is 0 or missing. */
  readonly port?: number
  readonly host?: string
  /** Whether `requests` is filled. It keeps every body, so a long-running backend should not use it. */
  readonly keepsRequests?: boolean
}

/** Starts a backend that imitates an LLM provider. */
export async function startFakeLlm(options: FakeLlmStart = {}): Promise<FakeLlm> {
  const { port = 0, host = '127.0.0.1', keepsRequests = true, ...changes } = options
  const fake = new FakeLlm({ ...DEFAULT_OPTIONS, ...changes }, keepsRequests)
  await fake.listen(port, host)
  return fake
}

// A gateway keeps idle connections, and must not find one closed at the moment it reuses it.
const KEEP_ALIVE_MS = 75_000
const USAGE_PATH = '/fake/usage'

export class FakeLlm {
  /** May be changed at any time; requests that arrived earlier keep their options. */
  options: FakeLlmOptions
  /** All received requests, oldest first; empty unless requests are kept. */
  readonly requests: ReceivedRequest[] = []
  /** What was served since the start. */
  readonly usage = new ServedUsage()
  readonly #keepsRequests: boolean
  readonly #dice: FaultDice
  readonly #server: Server
  #port = 0
  readonly #open = new Set<Promise<void>>()

  constructor(options: FakeLlmOptions, keepsRequests: boolean) {
    this.options = options
    this.#keepsRequests = keepsRequests
    this.#dice = new FaultDice(options.seed)
    this.#server = createServer({ keepAliveTimeout: KEEP_ALIVE_MS }, (req, res) => {
      const handling = this.#handle(req, res).finally(() => this.#open.delete(handling))
      this.#open.add(handling)
    })
  }

  get port(): number {
    return this.#port
  }

  listen(port: number, host: string): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject)
      this.#server.listen({ port, host }, () => {
        this.#server.off('error', reject)
        this.#port = (this.#server.address() as AddressInfo).port
        resolve()
      })
    })
  }

  /** Stops listening and closes all open connections. */
  async close(): Promise<void> {
    const closed = new Promise((resolve) => {
      this.#server.close(resolve)
    })
    this.#server.closeAllConnections()
    await closed
    await Promise.all(this.#open)
  }

  async #handle(req: IncomingMessage, res: ServerResponse): Promise<void> {
    if (req.method === 'GET' && req.url === USAGE_PATH) return respond(res, 200, this.usage)
    this.usage.noteRequest()
    const fail = this.#dice.draw(this.options.faults) ?? this.options.fail
    const call = new FakeCall(req, res, { ...this.options, fail }, this.usage)
    if (this.#keepsRequests) this.requests.push(call.request)
    try {
      call.request.body = await buffer(req)
      await respondTo(call)
    } catch (error) {
      if (call.signal.aborted || !req.complete) return
      if (res.headersSent) res.destroy()
      else respond(res, 500, openAiError('broken', String(error)))
    }
  }
}
