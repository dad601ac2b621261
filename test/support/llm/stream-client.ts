import { EventEmitter, once } from 'node:events'
import { type ClientRequest, type IncomingMessage, request } from 'node:http'
import type { Fields } from '../service/http.ts'
import { parseSse, type SseEvent } from './llm-streams.ts'

/** A client that reads an answer while it comes, and may go away at any moment. */
export class StreamClient {
  status: number | undefined
  headers: Readonly<Record<string, string | string[] | undefined>> = {}
  /** `whole`: it came to its end; `broken`: it did not. */
  outcome: 'open' | 'whole' | 'broken' = 'open'
  readonly #chunks: Buffer[] = []
  readonly #changes = new EventEmitter()
  readonly #req: ClientRequest
  #res: IncomingMessage | undefined

  constructor(port: number, path: string, body: string, fields: Fields = []) {
    const headers = [...fields.flat(), 'Host', `127.0.0.1:${port}`, 'Content-Length', String(Buffer.byteLength(body))]
    this.#req = request({ host: '127.0.0.1', port, method: 'POST', path, headers, agent: false }, (res) => {
      this.#res = res
      this.status = res.statusCode
      this.headers = res.headers
      this.#changes.emit('change')
      res.on('data', (chunk: Buffer) => {
        this.#chunks.push(chunk)
        this.#changes.emit('change')
      })
      res.on('end', () => this.#close('whole'))
      res.on('error', () => this.#close('broken'))
    })
    this.#req.on('error', () => this.#close('broken'))
    this.#req.on('close', () => this.#close('broken'))
    this.#req.end(body)
  }

  /** All bytes so far. */
  get bytes(): Buffer {
    return Buffer.concat(this.#chunks)
  }

  get text(): string {
    return this.bytes.toString()
  }

  get events(): SseEvent[] {
    return parseSse(this.text)
  }

  /** The data of its events: JSON where it is JSON. */
  get data(): unknown[] {
    return this.events.map(({ data }) => (data.startsWith('{') ? JSON.parse(data) : data))
  }

  async untilHead(): Promise<this> {
    return this.#until(() => this.status !== undefined)
  }

  async untilText(part: string): Promise<this> {
    return this.#until(() => this.text.includes(part))
  }

  async untilClosed(): Promise<this> {
    return this.#until(() => this.outcome !== 'open')
  }

  /** Reads nothing for now. */
  pause(): void {
    this.#res?.pause()
  }

  resume(): void {
    this.#res?.resume()
  }

  /** Goes away at once, as programs do: its side of the connection ends. */
  abort(): void {
    this.#req.destroy()
  }

  /** Ends its side, and reads on. */
  endSide(): void {
    this.#req.socket?.end()
  }

  /** Goes away at once, and says so. */
  reset(): void {
    this.#req.socket?.resetAndDestroy()
  }

  async #until(isTrue: () => boolean): Promise<this> {
    while (!isTrue()) {
      if (this.outcome !== 'open') throw new Error(`the answer is ${this.outcome} and has only: ${this.text.slice(0, 1000)}`)
      await once(this.#changes, 'change')
    }
    return this
  }

  #close(outcome: 'whole' | 'broken'): void {
    if (this.outcome === 'open') this.outcome = outcome
    this.#changes.emit('change')
  }
}
