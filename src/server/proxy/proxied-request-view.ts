import type { FieldValue, RequestView } from '../../request/view.ts'
import { fieldValue } from '../http-request-view.ts'
import type { Peer } from './client-connection.ts'
import { isForwardingField } from './forwarding-fields.ts'
import type { ProxiedRequest } from './proxied-request.ts'

/** What the engine sees of a request that came through us: what its peer has no right to say is not there. */
export class ProxiedRequestView implements RequestView {
  readonly #request: ProxiedRequest
  readonly #peer: Peer

  constructor(request: ProxiedRequest, peer: Peer) {
    this.#request = request
    this.#peer = peer
  }

  get method(): string {
    return this.#request.method
  }

  get uri(): string {
    return this.#request.target
  }

  get host(): string {
    return this.#request.host
  }

  header(name: string): FieldValue {
    const value = this.#peer.isTrusted || !isForwardingField(name) ? fieldValue(this.#request.fields, name) : undefined
    // A peer that forwards for nobody is itself the client.
    return value === undefined && name === 'x-forwarded-for' ? this.#peer.address : value
  }
}
