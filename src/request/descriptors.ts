import type { DescriptorKey, IpFact } from '../policy/descriptor-key.ts'
import { type Address, subjectText } from '../text/address.ts'
import { bearerToken, type Claims, claimText, llmKey, readClaims, sentToken } from './bearer.ts'
import { type CallerVerdict, isVerified } from './caller.ts'
import { clientAddress, TrustedProxies } from './client-address.ts'
import { cookieValue, pathSegment, queryValue } from './encoded-values.ts'
import { type IpFacts, readTorOverride } from './ip-facts.ts'
import { type FieldValue, REPEATED, type RequestView } from './view.ts'

/** Data that is needed to read descriptors. */
export interface Identification {
  readonly trustedProxies: TrustedProxies
  readonly ipFacts: IpFacts
}

export function defaultIdentification(): Identification {
  return { trustedProxies: new TrustedProxies(), ipFacts: {} }
}

/** Stands for a value in a body that was not read, or of a caller who was not verified yet, so it is not known whether there is one. */
export const UNDECIDED = Symbol('undecided')

/** Stands for a value in a body that is not JSON, where a lenient backend may find one. Limits treat it as missing, and matches refuse to guess. */
export const UNREADABLE = Symbol('unreadable')

export type DescriptorValue = FieldValue | typeof UNDECIDED | typeof UNREADABLE

/** Facts about the request that are not in its view. */
export interface RequestParts {
  /** The normalised path. */
  readonly path: string
  /** The model that the body names. */
  readonly model: DescriptorValue
}

// A value is unread, read, or known to be missing and reported as such.
const UNREAD = 0
const READ = 1
const MISSED = 2
const NO_KEYS: readonly DescriptorKey[] = []

/**
 * The descriptor values of one request at a time, each read at most once, when a rule first needs it. Values are kept by the
 * key's position in the plan until `end`.
 */
export class Descriptors {
  readonly #identification: Identification
  readonly #parts: RequestParts
  #keys: readonly DescriptorKey[] = NO_KEYS
  #values: DescriptorValue[] = []
  #states = new Uint8Array(0)
  /** The indexes of the keys that were read. Only the first `#readCount` entries are valid. */
  readonly #read: number[] = []
  #readCount = 0
  view: RequestView | undefined
  #claims: Claims | undefined | typeof REPEATED
  #hasClaims = false
  #address: Address | undefined
  #hasAddress = false
  #caller: CallerVerdict | undefined
  /** Whether `callers` has yet to say who the caller is. */
  #awaitsCaller = false
  /** Whether claims are those of the verified caller. */
  #verifiesClaims = false

  /** `parts` always belongs to the request that `begin` was last called for. */
  constructor(identification: Identification, parts: RequestParts) {
    this.#identification = identification
    this.#parts = parts
  }

  begin(view: RequestView, keys: readonly DescriptorKey[]): void {
    if (keys !== this.#keys) {
      this.#keys = keys
      this.#values = new Array<DescriptorValue>(keys.length).fill(undefined)
      this.#states = new Uint8Array(keys.length)
    }
    this.view = view
  }

  /** Leaves the values that depend on the caller undecided until `setCaller`. Call it right after `begin`. */
  awaitCaller(): void {
    this.#awaitsCaller = true
  }

  /** `verifiesClaims` says that `jwt:` keys read the claims of this caller only. */
  setCaller(caller: CallerVerdict, verifiesClaims: boolean): void {
    this.#caller = caller
    this.#awaitsCaller = false
    this.#verifiesClaims = verifiesClaims
  }

  get caller(): CallerVerdict | undefined {
    return this.#caller
  }

  /** The client's address, or of an IPv6 address the first one of its network; undefined if it is unknown. */
  get networkAddress(): string | undefined {
    const address = this.#readAddress()
    return address && subjectText(address).replace('/64', '')
  }

  /** Drops the request and everything that was read of it. */
  end(): void {
    const values = this.#values
    const states = this.#states
    for (let i = 0; i < this.#readCount; i++) {
      const index = this.#read[i]!
      values[index] = undefined
      states[index] = UNREAD
    }
    this.#readCount = 0
    this.view = undefined
    if (this.#hasClaims) this.#claims = undefined
    this.#hasClaims = false
    if (this.#hasAddress) this.#address = undefined
    this.#hasAddress = false
    this.#caller = undefined
    this.#awaitsCaller = false
    this.#verifiesClaims = false
  }

  /** Returns the value of the key at `index`; an empty value counts as missing. */
  get(index: number): DescriptorValue {
    if (this.#states[index] !== UNREAD) return this.#values[index]
    const key = this.#keys[index]!
    // A header is the common case, and is read without the call of `#find`.
    const value = (key.kind === 'header' ? this.view!.header(key.name) : this.#find(key)) || undefined
    this.#read[this.#readCount++] = index
    this.#values[index] = value
    this.#states[index] = READ
    return value
  }

  /** Returns true once for each key: a missing one is reported once, however many rules need it. */
  isFirstMiss(index: number): boolean {
    const isFirst = this.#states[index] === READ
    this.#states[index] = MISSED
    return isFirst
  }

  /** Begins a further step on the same request: missing keys are reported again, and what was undecided may be known since. */
  restart(): void {
    let kept = 0
    for (let i = 0; i < this.#readCount; i++) {
      const index = this.#read[i]!
      if (this.#keys[index]!.kind === 'model' || this.#values[index] === UNDECIDED) this.#states[index] = UNREAD
      else {
        this.#states[index] = READ
        this.#read[kept++] = index
      }
    }
    this.#readCount = kept
  }

  #find(key: Exclude<DescriptorKey, { kind: 'header' }>): DescriptorValue {
    switch (key.kind) {
      case 'bearer':
        return bearerToken(this.view!.header('authorization'))
      case 'jwt': {
        if (this.#awaitsCaller) return UNDECIDED
        const claims = this.#readClaims()
        return claims === REPEATED ? REPEATED : claims && claimText(claims, key.claim, key.segments)
      }
      case 'key':
        return llmKey(this.view!)
      case 'ip':
        return this.#readIpFact(key.fact)
      case 'query':
        return queryValue(this.view!.uri, key.nameBytes)
      case 'cookie':
        return cookieValue(this.view!.header('cookie') as string | undefined, key.name) // its lines are joined
      case 'path':
        return pathSegment(this.#parts.path, key.segment)
      case 'model':
        return this.#parts.model
      case 'context':
        return this.view!.context?.(key.name)
      case 'caller':
        return this.#readCaller(key.label)
      case 'descriptor':
        return undefined // only calls of the rate limit service have them
    }
  }

  #readIpFact(fact: IpFact): FieldValue {
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
        const listed = address && types.lookup(address)
        if (listed !== undefined) return listed
        const named = this.view!.header('x-asn-type')
        return named === REPEATED ? REPEATED : named?.trim()
      }
      case 'tor': {
        const named = this.view!.header('x-tor-exit')
        if (named === REPEATED) return REPEATED
        const override = readTorOverride(named)
        if (override !== undefined) return String(override)
        const address = torExits && this.#readAddress()
        return address && String(torExits.lookup(address) !== undefined)
      }
    }
  }

  #readClaims(): Claims | undefined | typeof REPEATED {
    if (this.#verifiesClaims) return this.#caller !== undefined && isVerified(this.#caller) ? this.#caller.claims : undefined
    if (!this.#hasClaims) {
      const token = sentToken(this.view!.header('authorization'))
      this.#claims = typeof token === 'string' ? readClaims(token) : token
      this.#hasClaims = true
    }
    return this.#claims
  }

  #readCaller(label: string): DescriptorValue {
    if (this.#awaitsCaller) return UNDECIDED
    if (this.#caller === undefined || !isVerified(this.#caller)) return undefined
    return label === 'id' ? this.#caller.id : this.#caller.labels.get(label)
  }

  #readAddress(): Address | undefined {
    if (!this.#hasAddress) {
      const { peer } = this.view!
      const chain = this.view!.header('x-forwarded-for') as string | undefined // its lines are joined
      const hops = peer === undefined ? chain : chain === undefined ? peer : `${chain}, ${peer}`
      this.#address = clientAddress(hops, this.#identification.trustedProxies)
      this.#hasAddress = true
    }
    return this.#address
  }
}
