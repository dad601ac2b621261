import { createHash, type Hash } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import { Random } from '../random/random.ts'
import type { Owner } from '../service/running.ts'
import { until } from '../until.ts'

/** How a response is framed and what is done with it on its way: `X-Kind` of a request asks for one. */
export const KINDS = ['counted', 'chunked', 'endless', 'events', 'filtered', 'spliced', 'compressed', 'beside'] as const
export type Kind = (typeof KINDS)[number]

/** Text that does not repeat within what compression looks back at. */
const NOISE = noise(96 * 1024)

/** So many events of 1 KiB that nobody else gets: `owner` is in each. */
export function patternOf(owner: string, events: number): string {
  return Array.from({ length: events }, (_, i) => eventOf(`${owner} ${i} `, i)).join('')
}

/** A chat chunk of 1 KiB whose content begins so. */
function eventOf(start: string, index: number): string {
  const begin = `data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"${start}`
  const rest = '"},"finish_reason":null}]}\n\n'
  const from = (index * 1024) % (NOISE.length - 1024)
  return begin + NOISE.slice(from, from + 1024 - begin.length - rest.length) + rest
}

function noise(characters: number): string {
  const random = new Random(3)
  return Buffer.from(Array.from({ length: characters }, () => random.below(256)))
    .toString('base64')
    .slice(0, characters)
}

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
    const text = Buffer.from(patternOf(String(client), Number(events)))
    const bytes = kind === 'compressed' ? gzipSync(text) : text
    res.setHeader('Content-Type', kind === 'counted' || kind === 'chunked' || kind === 'endless' ? 'text/plain' : 'text/event-stream')
    if (kind === 'counted') res.setHeader('Content-Length', bytes.length)
    if (kind === 'compressed') res.setHeader('Content-Encoding', 'gzip')
    if (kind === 'endless') {
      res.useChunkedEncodingByDefault = false
      res.shouldKeepAlive = false
    }
    res.once('finish', () => this.finished.add(String(client)))
    // Pieces of any size, so that events are split anywhere.
    for (let from = 0; from < bytes.length; ) {
      const to = from + 1 + this.#random.below(this.#random.oneOf([10, 2000, 40_000]))
      if (!res.write(bytes.subarray(from, to))) await once(res, 'drain')
      else if (this.#random.next() < 0.2) await turn()
      from = to
    }
    res.end()
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
