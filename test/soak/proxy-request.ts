import { type Agent, type ClientRequest, request } from 'node:http'

export interface RequestOptions {
  readonly port: number
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Buffer
  /** Keeps connections; else one of its own. */
  readonly agent: Agent | undefined
}

/** A request on its way, that its client may leave at any moment. */
export class ProxyRequest {
  status: number | undefined
  text = ''
  /** `left`: by its client. */
  outcome: 'open' | 'whole' | 'broken' | 'left' = 'open'
  /** The backend has it. */
  hasArrived = false
  readonly over: Promise<void>
  onText: () => void = () => {}
  readonly #req: ClientRequest

  constructor({ body, agent, headers, ...options }: RequestOptions) {
    const length = { 'Content-Length': String(Buffer.byteLength(body)) }
    this.#req = request({ host: '127.0.0.1', ...options, headers: { ...headers, ...length }, agent: agent ?? false })
    this.over = new Promise((resolve) => {
      this.#req.on('response', (res) => {
        this.status = res.statusCode
        res.setEncoding('utf8')
        res.on('data', (text: string) => {
          this.text += text
          this.onText()
        })
        res.on('end', () => this.#close('whole', resolve))
        res.on('error', () => this.#close('broken', resolve))
      })
      this.#req.on('error', () => this.#close('broken', resolve))
      this.#req.on('close', () => this.#close('broken', resolve))
    })
    this.#req.end(body)
  }

  leave(isReset: boolean): void {
    if (this.outcome !== 'open') return
    this.outcome = 'left'
    if (isReset) this.#req.socket?.resetAndDestroy()
    this.#req.destroy()
  }

  #close(outcome: 'whole' | 'broken', resolve: () => void): void {
    if (this.outcome === 'open') this.outcome = outcome
    resolve()
  }
}
