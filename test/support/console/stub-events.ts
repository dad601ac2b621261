import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type Owner, thisTest } from '../service/running.ts'
import { until } from '../until.ts'

/** Stands before an admin port and lets everything through but GET events: what comes there the test writes. */
export class StubEvents {
  readonly port: number
  /** What each request for events said about where to continue. */
  readonly continued: readonly (string | undefined)[]
  readonly #streams: Set<ServerResponse>
  #lastId = 0

  private constructor(port: number, streams: Set<ServerResponse>, continued: readonly (string | undefined)[]) {
    this.port = port
    this.#streams = streams
    this.continued = continued
  }

  static async start(adminPort: number, owner: Owner = thisTest): Promise<StubEvents> {
    const streams = new Set<ServerResponse>()
    const continued: (string | undefined)[] = []
    const server = createServer((req, res) => {
      if (req.url !== '/admin/v1/events?since=1h') return passOn(adminPort, req, res)
      continued.push(req.headers['last-event-id'] as string | undefined)
      open(streams, res)
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    owner.onTestFinished(() => {
      server.close()
      server.closeAllConnections()
    })
    return new StubEvents((server.address() as AddressInfo).port, streams, continued)
  }

  async connected(): Promise<void> {
    await until(() => this.#streams.size > 0)
  }

  /** Done when the browser has taken them. */
  async send(events: readonly Readonly<Record<string, unknown>>[]): Promise<void> {
    const text = events.map((event) => `event: ${event['event']}\ndata: ${JSON.stringify(event)}\nid: ${++this.#lastId}\n\n`).join('')
    await Promise.all([...this.#streams].map((stream) => new Promise((resolve) => stream.write(text, resolve))))
  }

  /** The next event has a number as if so many had come before it that nobody got. */
  lose(count: number): void {
    this.#lastId += count
  }

  disconnect(): void {
    for (const stream of this.#streams) stream.destroy()
  }
}

function open(streams: Set<ServerResponse>, res: ServerResponse): void {
  res.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store' })
  res.write(':\n\n')
  streams.add(res)
  res.on('close', () => streams.delete(res))
}

function passOn(port: number, req: IncomingMessage, res: ServerResponse): void {
  const further = request({ host: '127.0.0.1', port, method: req.method, path: req.url, headers: req.headers, agent: false })
  further.on('response', (response) => {
    res.writeHead(response.statusCode!, response.headers)
    response.pipe(res)
  })
  further.on('error', () => res.destroy())
  req.pipe(further)
}
