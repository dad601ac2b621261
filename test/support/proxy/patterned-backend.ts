import { createHash, type Hash } from 'node:crypto'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Random } from '../random/random.ts'
import type { Owner } from '../service/running.ts'
import { until } from '../until.ts'
import { type Kind, sendPattern } from './pattern.ts'

/** A backend that responds with a pattern of the client's own, or reads one when it is told to. */
export class PatternedBackend {
  readonly #server: Server
  /** Responses that the system has taken whole, by their client. */
  readonly finished = new Set<string>()
  /** What uploads came to, by their client. */
  readonly uploads = new Map<string, string>()
  /** Uploads are read from now on. */
  isReading = true
  readonly #random = new Random(7)

  private constructor() {
    this.#server = createServer((req, res) => void this.#serve(req, res).catch(() => res.destroy()))
  }

  static async start(owner: Owner): Promise<PatternedBackend> {
    const backend = new PatternedBackend()
    await new Promise<void>((resolve) => backend.#server.listen(0, '127.0.0.1', resolve))
    owner.onTestFinished(() => {
      backend.#server.closeAllConnections()
      backend.#server.close()
    })
    return backend
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  async #serve(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const { 'x-kind': kind, 'x-client': client, 'x-events': events } = req.headers
    if (kind === 'upload') return this.#upload(req, res, String(client))
    req.resume()
    res.once('finish', () => this.finished.add(String(client)))
    await sendPattern(res, kind as Kind, String(client), Number(events), this.#random)
  }

  async #upload(req: IncomingMessage, res: ServerResponse, client: string): Promise<void> {
    const hash = createHash('sha256')
    await until(() => this.isReading)
    for await (const chunk of req) hash.update(chunk as Buffer)
    this.uploads.set(client, digestOf(hash))
    res.end('taken')
  }
}

export function digestOf(hash: Hash): string {
  return hash.digest('hex')
}
