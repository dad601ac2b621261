import { type ClientRequest, type IncomingMessage, request } from 'node:http'
import { type Owner, thisTest } from '../service/running.ts'
import { until } from '../until.ts'
import { ADMIN_TOKEN } from './admin-client.ts'

export interface SeenEvent {
  /** Of the line `event:`. */
  readonly name: string
  readonly data: Readonly<Record<string, unknown>>
  /** Of the line `id:`. */
  readonly id: string | undefined
}

/** One who reads GET events, for as long as the test runs. */
export class EventClient {
  readonly events: SeenEvent[] = []
  /** Other blocks, such as heartbeats. */
  readonly others: string[] = []
  isClosed = false
  readonly res: IncomingMessage
  readonly #req: ClientRequest
  #rest = ''

  private constructor(req: ClientRequest, res: IncomingMessage) {
    this.#req = req
    this.res = res
    res.setEncoding('utf8')
    res.on('data', (text: string) => this.#read(text))
    res.on('error', () => {})
    res.on('close', () => {
      this.isClosed = true
    })
  }

  /** Done when the head of the response is here. */
  static open(
    port: number,
    query = '',
    owner: Owner = thisTest,
    fields: Readonly<Record<string, string>> = {},
    localAddress = '127.0.0.1',
  ): Promise<EventClient> {
    return new Promise((resolve, reject) => {
      const headers = { Authorization: `Bearer ${ADMIN_TOKEN}`, ...fields }
      const req = request({ port, host: '127.0.0.1', localAddress, path: `/admin/v1/events${query}`, agent: false, headers })
      req.on('error', reject)
      req.on('response', (res) => {
        const client = new EventClient(req, res)
        owner.onTestFinished(() => client.abort())
        resolve(client)
      })
      req.end()
    })
  }

  named(name: string): SeenEvent[] {
    return this.events.filter((event) => event.name === name)
  }

  async untilNamed(name: string, count = 1): Promise<SeenEvent[]> {
    await until(() => this.named(name).length >= count)
    return this.named(name)
  }

  abort(): void {
    this.#req.destroy()
  }

  #read(text: string): void {
    const blocks = `${this.#rest}${text}`.split('\n\n')
    this.#rest = blocks.pop()!
    for (const block of blocks) {
      const match = /^event: (\w+)\ndata: (.*)(?:\nid: (\d+))?$/.exec(block)
      if (match === null) this.others.push(block)
      else this.events.push({ name: match[1]!, data: JSON.parse(match[2]!) as Record<string, unknown>, id: match[3] })
    }
  }
}
