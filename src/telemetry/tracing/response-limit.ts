import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { Agent, ClientRequest, IncomingMessage } from 'node:http'

/** Node publishes the head of each response here, before anybody reads its body. */
const RESPONSES = 'http.client.response.finish'

interface ResponseMessage {
  readonly request: ClientRequest & { readonly agent?: Agent }
  readonly response: IncomingMessage
}

/** Cuts off the responses to an agent's requests that have more bytes, until the function that is returned is called. */
export function limitResponses(agent: Agent, maxBytes: number): () => void {
  const onResponse = (message: unknown): void => {
    const { request, response } = message as ResponseMessage
    if (request.agent !== agent) return
    let bytes = 0
    response.on('data', (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes > maxBytes) response.destroy(new Error(`its response has more than ${maxBytes} bytes`))
    })
  }
  subscribe(RESPONSES, onResponse)
  return () => void unsubscribe(RESPONSES, onResponse)
}
