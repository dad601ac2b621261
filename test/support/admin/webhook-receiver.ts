import { createServer, type IncomingHttpHeaders, type Server, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { Webhook as StandardWebhook } from 'standardwebhooks'
import { type Owner, thisTest } from '../service/running.ts'
import { until } from '../until.ts'

export const EVENTS_SECRET = `whsec_${Buffer.from('a key of thirty-two bytes, or so').toString('base64')}`

export interface PostedBatch {
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly body: string
  readonly id: string
  readonly events: readonly Readonly<Record<string, unknown>>[]
}

/** Who gets what is posted to EDGE_EVENTS_URL: a real server whose responses a test chooses. Checks each signature with the library of Standard Webhooks. */
export class WebhookReceiver {
  readonly batches: PostedBatch[] = []
  connections = 0
  respond: (res: ServerResponse, batch: PostedBatch) => void = (res) => void res.writeHead(204).end()
  readonly #server: Server
  /** Up to the port. */
  readonly #base: string

  private constructor(server: Server, base: string) {
    this.#server = server
    this.#base = base
    server.on('tlsClientError', () => {}) // those who do not trust it
    server.on('connection', () => this.connections++)
    server.on('request', async (req, res) => {
      let body = ''
      for await (const chunk of req.setEncoding('utf8')) body += chunk
      const { events } = new StandardWebhook(EVENTS_SECRET).verify(body, req.headers as Record<string, string>) as PostedBatch
      const batch = { path: req.url!, headers: req.headers, body, id: String(req.headers['webhook-id']), events }
      this.batches.push(batch)
      this.respond(res, batch)
    })
  }

  static async start(owner: Owner = thisTest, tls?: { readonly key: Buffer; readonly cert: Buffer }): Promise<WebhookReceiver> {
    const server = tls === undefined ? createServer() : createTlsServer(tls)
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    owner.onTestFinished(() => {
      server.close()
      server.closeAllConnections()
    })
    return new WebhookReceiver(server, tls === undefined ? 'http://127.0.0.1' : 'https://localhost')
  }

  get url(): string {
    return `${this.#base}:${(this.#server.address() as AddressInfo).port}/hook?key=a-secret-in-the-query`
  }

  get env(): Readonly<Record<string, string>> {
    return { EDGE_EVENTS_URL: this.url, EDGE_EVENTS_SECRET: EVENTS_SECRET }
  }

  /** Of all batches, in order. */
  get events(): Readonly<Record<string, unknown>>[] {
    return this.batches.flatMap(({ events }) => events)
  }

  named(name: string): Readonly<Record<string, unknown>>[] {
    return this.events.filter(({ event }) => event === name)
  }

  async untilNamed(name: string): Promise<Readonly<Record<string, unknown>>> {
    await until(() => this.named(name).length > 0)
    return this.named(name)[0]!
  }
}
