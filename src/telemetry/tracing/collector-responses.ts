import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { Agent, ClientRequest, IncomingMessage } from 'node:http'

/** Node publishes the head of each response here, before anybody reads its body. */
const CHANNEL = 'http.client.response.finish'

interface ResponseMessage {
  readonly request: ClientRequest & { readonly agent?: Agent }
  readonly response: IncomingMessage
}

/** Watches the responses to an agent's requests, which the exporter sends and reads on its own. Those with more bytes are cut off. */
export class CollectorResponses {
  /** Of the last one. */
  status: number | undefined
  readonly #agent: Agent
  readonly #maxBytes: number
  readonly #onMessage = (message: unknown): void => this.#watch(message as ResponseMessage)

  constructor(agent: Agent, maxBytes: number) {
    this.#agent = agent
    this.#maxBytes = maxBytes
    subscribe(CHANNEL, this.#onMessage)
  }

  close(): void {
    unsubscribe(CHANNEL, this.#onMessage)
  }

  #watch({ request, response }: ResponseMessage): void {
    if (request.agent !== this.#agent) return
    this.status = response.statusCode
    let bytes = 0
    response.on('data', (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes > this.#maxBytes) response.destroy(new Error(`its response has more than ${this.#maxBytes} bytes`))
    })
  }
}
