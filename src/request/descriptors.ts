import type { DescriptorKey, IpFact } from '../policy/descriptor-key.ts'
import { type Address, subjectText } from './address.ts'
import { clientAddress, TrustedProxies } from './client-address.ts'
import { type IpFacts, readTorOverride } from './ip-facts.ts'
import { type Claims, claimText, readBearerClaims } from './jwt.ts'
import type { RequestView } from './view.ts'

/** What it takes to tell who a caller is. */
export interface Identification {
  readonly trustedProxies: TrustedProxies
  readonly ipFacts: IpFacts
}

export function defaultIdentification(): Identification {
  return { trustedProxies: new TrustedProxies(), ipFacts: {} }
}

/**
 * The descriptor values of one request at a time, each worked out at most once and only when a rule asks. Values are
 * kept by the key's position in the plan; a stamp tells this request's values from earlier ones.
 */
export class Descriptors {
  readonly #identification: Identification
  #keys: readonly DescriptorKey[] = []
  #values: (string | undefined)[] = []
  #stamps = new Int32Array(0)
  #missStamps = new Int32Array(0)
  #stamp = 0
  #view: RequestView | undefined
  #claims: Claims | undefined
  #hasClaims = false
  #address: Address | undefined
  #hasAddress = false

  constructor(identification: Identification) {
    this.#identification = identification
  }

  begin(view: RequestView, keys: readonly DescriptorKey[]): void {
    if (keys !== this.#keys || this.#stamp === 0x7fff_ffff) {
      this.#keys = keys
      this.#values = new Array<string | undefined>(keys.length).fill(undefined)
      this.#stamps = new Int32Array(keys.length)
      this.#missStamps = new Int32Array(keys.length)
      this.#stamp = 0
    }
    this.#stamp++
    this.#view = view
    this.#hasClaims = false
    this.#hasAddress = false
  }

  /** The value of the key at `index`; empty counts as missing. */
  get(index: number): string | undefined {
    if (this.#stamps[index] === this.#stamp) return this.#values[index]
    const value = this.#read(this.#keys[index]!) || undefined
    this.#stamps[index] = this.#stamp
    this.#values[index] = value
    return value
  }

  /** Answers true once per request for each key: a missing one is reported once, however many rules want it. */
  isFirstMiss(index: number): boolean {
    const isFirst = this.#missStamps[index] !== this.#stamp
    this.#missStamps[index] = this.#stamp
    return isFirst
  }

  #read(key: DescriptorKey): string | undefined {
    switch (key.kind) {
      case 'header':
        return this.#view!.header(key.name)
      case 'jwt': {
        const claims = this.#readClaims()
        return claims && claimText(claims, key.claim, key.segments)
      }
      case 'ip':
        return this.#readIpFact(key.fact)
    }
  }

  #readIpFact(fact: IpFact): string | undefined {
    const { countryOf, types, torExits } = this.#identification.ipFacts
    switch (fact) {
      case 'address': {
        const address = this.#readAddress()
        return address && subjectText(address)
      }
      case 'country': {
        const address = countryOf && this.#readAddress()
        return address && countryOf(address)
      }
      case 'type': {
        const address = types && this.#readAddress()
        return (address && types.lookup(address)) ?? this.#view!.header('x-asn-type')?.trim()
      }
      case 'tor': {
        const override = readTorOverride(this.#view!.header('x-tor-exit'))
        if (override !== undefined) return String(override)
        const address = torExits && this.#readAddress()
        return address && String(torExits.lookup(address) !== undefined)
      }
    }
  }

  #readClaims(): Claims | undefined {
    if (!this.#hasClaims) {
      this.#claims = readBearerClaims(this.#view!.header('authorization'))
      this.#hasClaims = true
    }
    return this.#claims
  }

  #readAddress(): Address | undefined {
    if (!this.#hasAddress) {
      this.#address = clientAddress(this.#view!.header('x-forwarded-for'), this.#identification.trustedProxies)
      this.#hasAddress = true
    }
    return this.#address
  }
}
