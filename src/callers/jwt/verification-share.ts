import { addressSubject } from '../../text/address.ts'

/** Part of a worker's time that verification may take. */
const SHARE = 0.3
/** How much of it may be used at once, and how long an address is remembered. */
const WINDOW_MS = 500
/** How much of that is for anybody. The rest is for addresses from which a good token came before. */
const STRANGERS_MS = 0.75 * WINDOW_MS
/** More addresses than this in one window share places. */
const MAX_ADDRESSES = 8192
const SHARED_PLACES = 1024
/** At least so many addresses are remembered for a good token. */
const MAX_PROVEN = 8192
/** The rest of a longer pause is the machine's, which was busy or asleep. Charging it would use up what is kept for those who ask for little. */
const MAX_COST_MS = 20

/**
 * Bounds the time that a worker spends on verifying tokens, and divides it by client address (IPv6: by /64).
 *
 * Everybody together and each address alone owe the time they used, and owe less as time passes: everybody at the rate of the share, an address
 * at the rate of the share divided by the number of addresses that used some of it lately. Who owes a whole window must wait. The more an address
 * owes, the less all may owe for it to be admitted, so a flood stops at half of what is there, and the other half is for those who ask for less.
 *
 * A flood from thousands of addresses looks like thousands of clients who ask for little. So addresses from which a good token came are counted among
 * themselves, and a part is kept for them: bad tokens, from however many addresses, never take it.
 */
export class VerificationShare {
  /** When everybody will have paid for what was used, in ms of the clock that is passed in. */
  #paidAtMs = Number.NEGATIVE_INFINITY
  readonly #strangers = new Payers(STRANGERS_MS)
  readonly #provenPayers = new Payers(WINDOW_MS)
  readonly #proven = new ProvenAddresses()

  admits(address: string | undefined, nowMs: number): boolean {
    const subject = addressSubject(address)
    const payers = this.#payersOf(subject)
    const owesMs = payers.paidAt(subject, nowMs) - nowMs
    const allowedMs = payers.allowedMs - Math.max(owesMs, 0) / 2
    return owesMs < WINDOW_MS && this.#paidAtMs - nowMs < allowedMs
  }

  /** Charges an address for what was done, whatever came of it. `isGood`: a token was verified. */
  charge(address: string | undefined, spentMs: number, nowMs: number, isGood = false): void {
    const costMs = Math.min(Math.max(spentMs, 0), MAX_COST_MS) / SHARE
    const subject = addressSubject(address)
    this.#payersOf(subject).charge(subject, costMs, nowMs)
    this.#paidAtMs = Math.max(this.#paidAtMs, nowMs) + costMs
    if (isGood) this.#proven.add(subject)
  }

  /** The number of addresses that are remembered for what they owe, and for a good token, for tests of the bounds. */
  get sizes(): { readonly owing: number; readonly proven: number } {
    return { owing: this.#strangers.size + this.#provenPayers.size, proven: this.#proven.size }
  }

  #payersOf(subject: string): Payers {
    return this.#proven.has(subject) ? this.#provenPayers : this.#strangers
  }
}

/** Addresses that divide what there is among themselves. */
class Payers {
  /** What all may owe while one of these that owes nothing is admitted. */
  readonly allowedMs: number
  /** When each address that used something in this window, and in the one before, will have paid. An older debt is paid: it is at most a window. */
  #current = new Map<string, number>()
  #previous = new Map<string, number>()
  #window = Number.NEGATIVE_INFINITY
  /** So that nobody can choose addresses that share a place with somebody else's. */
  readonly #seed = Math.floor(Math.random() * 2 ** 32)

  constructor(allowedMs: number) {
    this.allowedMs = allowedMs
  }

  get size(): number {
    return this.#current.size + this.#previous.size
  }

  paidAt(subject: string, nowMs: number): number {
    this.#turnTo(nowMs)
    return this.#paidAt(this.#placeOf(subject))
  }

  charge(subject: string, costMs: number, nowMs: number): void {
    this.#turnTo(nowMs)
    const place = this.#placeOf(subject)
    const paidAtMs = Math.max(this.#paidAt(place), nowMs)
    this.#current.set(place, paidAtMs)
    const addresses = Math.max(this.#current.size, this.#previous.size)
    this.#current.set(place, Math.min(paidAtMs + costMs * addresses, nowMs + WINDOW_MS))
  }

  #turnTo(nowMs: number): void {
    const window = Math.floor(nowMs / WINDOW_MS)
    if (window === this.#window) return
    this.#previous = window === this.#window + 1 ? this.#current : new Map()
    this.#current = new Map()
    this.#window = window
  }

  #paidAt(place: string): number {
    return this.#current.get(place) ?? this.#previous.get(place) ?? Number.NEGATIVE_INFINITY
  }

  #placeOf(subject: string): string {
    if (this.#current.size < MAX_ADDRESSES || this.#current.has(subject)) return subject
    let place = this.#seed
    for (let i = 0; i < subject.length; i++) place = Math.imul(place ^ subject.charCodeAt(i), 0x01000193)
    return `shared ${(place >>> 16) % SHARED_PLACES}`
  }
}

/** The addresses from which good tokens came last, in two generations of which the older is dropped whole. */
class ProvenAddresses {
  #young = new Set<string>()
  #old = new Set<string>()

  get size(): number {
    return this.#young.size + this.#old.size
  }

  has(subject: string): boolean {
    return this.#young.has(subject) || this.#old.has(subject)
  }

  add(subject: string): void {
    if (this.#young.has(subject)) return
    if (this.#young.size >= MAX_PROVEN) {
      this.#old = this.#young
      this.#young = new Set()
    }
    this.#young.add(subject)
  }
}
