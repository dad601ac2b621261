import { parseAddress, subjectText } from '../../text/address.ts'

/** Part of a worker's time that verification may take. */
const SHARE = 0.3
/** How much of it may be used at once, and how long an address is remembered. */
const WINDOW_MS = 500
/** More addresses than this in one window share places. */
const MAX_ADDRESSES = 8192
const SHARED_PLACES = 1024
/** The rest of a longer pause is the machine's, which was busy or asleep. Charging it would use up what is kept for those who ask for little. */
const MAX_COST_MS = 20

/**
 * Bounds the time that a worker spends on verifying tokens, and divides it by client address (IPv6: by /64).
 *
 * Everybody together and each address alone owe the time they used, and owe less as time passes: everybody at the rate of the share, an address
 * at the rate of the share divided by the number of addresses that used some of it lately. Who owes a whole window must wait. The more an address
 * owes, the less all may owe for it to be admitted, so a flood stops at half of what is there, and the other half is for those who ask for less.
 */
export class VerificationShare {
  /** When everybody will have paid for what was used, in ms of the clock that is passed in. */
  #paidAtMs = Number.NEGATIVE_INFINITY
  /** The same for each address that used something in this window, and in the one before. An older debt is paid: it is at most a window. */
  #current = new Map<string, number>()
  #previous = new Map<string, number>()
  #window = Number.NEGATIVE_INFINITY
  /** So that nobody can choose addresses that share a place with somebody else's. */
  readonly #seed = Math.floor(Math.random() * 2 ** 32)

  admits(address: string | undefined, nowMs: number): boolean {
    this.#turnTo(nowMs)
    const owesMs = this.#paidAt(this.#placeOf(address)) - nowMs
    const allowedMs = WINDOW_MS - Math.max(owesMs, 0) / 2
    return owesMs < WINDOW_MS && this.#paidAtMs - nowMs < allowedMs
  }

  /** Charges an address for what was done, whatever came of it. */
  charge(address: string | undefined, spentMs: number, nowMs: number): void {
    this.#turnTo(nowMs)
    const costMs = Math.min(Math.max(spentMs, 0), MAX_COST_MS) / SHARE
    const place = this.#placeOf(address)
    const paidAtMs = Math.max(this.#paidAt(place), nowMs)
    this.#current.set(place, paidAtMs)
    const addresses = Math.max(this.#current.size, this.#previous.size)
    this.#current.set(place, Math.min(paidAtMs + costMs * addresses, nowMs + WINDOW_MS))
    this.#paidAtMs = Math.max(this.#paidAtMs, nowMs) + costMs
  }

  /** The number of addresses that are remembered, for tests of the bound. */
  get size(): number {
    return this.#current.size + this.#previous.size
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

  #placeOf(address: string | undefined): string {
    const parsed = address === undefined ? undefined : parseAddress(address)
    const subject = parsed === undefined ? 'unknown' : subjectText(parsed)
    if (this.#current.size < MAX_ADDRESSES || this.#current.has(subject)) return subject
    let place = this.#seed
    for (let i = 0; i < subject.length; i++) place = Math.imul(place ^ subject.charCodeAt(i), 0x01000193)
    return `shared ${(place >>> 16) % SHARED_PLACES}`
  }
}
