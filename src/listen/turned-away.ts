import type { Socket } from 'node:net'

/** So many at once get their response for sure; others beyond them are cut at once. */
const MAX_LINGERING = 8
const LINGER_MS = 1000

const BODY =
  '{"error":{"message":"No more connections fit into the limit of open files.","type":"service_unavailable","code":"too_many_connections"}}'
export const NO_SLOT_OVER_HTTP =
  'HTTP/1.1 503 Service Unavailable\r\nX-Edge-Reason: too_many_connections\r\nRetry-After: 1\r\nContent-Type: application/json\r\n' +
  `Content-Length: ${BODY.length}\r\nConnection: close\r\n\r\n${BODY}`

/** Connections for which there is no slot: they get one refusal, whatever they ask, and are closed. */
export class TurnedAway {
  readonly #refusal: string | Uint8Array
  #lingering = 0

  constructor(refusal: string | Uint8Array) {
    this.#refusal = refusal
  }

  /** A socket that is closed with unread bytes in it resets the client, which may then never see the response: they are read. */
  refuse(socket: Socket): void {
    socket.on('error', () => {}) // its 'close' follows
    socket.end(this.#refusal)
    if (this.#lingering >= MAX_LINGERING) return void socket.destroy()
    this.#lingering++
    const timer = setTimeout(() => socket.destroy(), LINGER_MS)
    socket.once('close', () => {
      this.#lingering--
      clearTimeout(timer)
    })
    socket.resume()
  }
}
