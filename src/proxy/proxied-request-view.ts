import { fieldValue } from '../http/raw-headers.ts'
import { type FieldValue, REPEATED, type RequestView } from '../request/view.ts'
import { foldedName } from './folded-name.ts'
import { isForwardingField } from './forwarding-fields.ts'
import type { Peer } from './peer.ts'
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
    const { fields } = this.#request
    if (!isForwardingField(name)) return valueInAnySpelling(fields, name)
    const value = this.#peer.isTrusted ? fieldValue(fields, name) : undefined
    // A peer that forwards for nobody is itself the client.
    return value === undefined && name === 'x-forwarded-for' ? this.#peer.address : value
  }
}

/** A CGI-style backend reads X_Api_Key as X-Api-Key, so a limit that is keyed by one must not be slipped by the other. */
function valueInAnySpelling(fields: readonly string[], name: string): FieldValue {
  let value = fieldValue(fields, name)
  // Without punctuation there is one spelling.
  if (!/[^a-z0-9]/.test(name)) return value
  const folded = foldedName(name)
  for (let i = 0; i < fields.length; i += 2) {
    if (fields[i]!.length !== name.length) continue
    const other = fields[i]!.toLowerCase()
    if (other === name || foldedName(other) !== folded) continue
    if (value !== undefined) return REPEATED
    value = fields[i + 1]!
  }
  return value
}
