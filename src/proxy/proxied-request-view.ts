import { type FieldName, fieldName } from '../http/field-name.ts'
import { fieldValue } from '../http/raw-headers.ts'
import { type FieldValue, REPEATED, type RequestView, withNextLine } from '../request/view.ts'
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
    const asked = fieldName(name)
    if (!asked.isForwarding) return valueInAnySpelling(this.#request, asked)
    const value = this.#peer.isTrusted ? fieldValue(this.#request.fields, name) : undefined
    // A peer that forwards for nobody is itself the client.
    return value === undefined && name === 'x-forwarded-for' ? this.#peer.address : value
  }
}

/** A CGI-style backend reads X_Api_Key as X-Api-Key, so a limit that is keyed by one must not be slipped by the other. */
function valueInAnySpelling({ names, fields }: ProxiedRequest, { lower, folded }: FieldName): FieldValue {
  let value: string | undefined
  for (let i = 0; i < names.length; i++) {
    if (names[i]!.folded !== folded) continue
    const line = fields[2 * i + 1]!
    const longer = value === undefined ? line : withNextLine(lower, value, line)
    if (longer === REPEATED) return REPEATED
    value = longer
  }
  return value
}
