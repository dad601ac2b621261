import type { Series } from '../metrics/counter-family.ts'
import type { BodyMemory } from './body-memory.ts'
import { RECENT_MS, RecentBytes } from './recent-bytes.ts'

/** How often a worker looks after its uploads, and hears of those that wait in other workers. */
const LOOK_MS = 100
/** How long a new upload waits for memory: longer than it takes to tell that one which stopped is slow. */
const MAX_WAIT_MS = 10_000
/** More do not wait: each may have sent 64 KiB with its head, which are in memory already. */
const MAX_WAITING = 256
/** No upload is judged before. */
const FIRST_MS = 1000
/** At its present pace, an upload that takes longer than this to bring as much as it holds is slow. */
const SLOW_MS = 60_000

export interface BodyClaimsParts {
  readonly memory: BodyMemory
  readonly nowMs: () => number
  readonly heldBytes: Series
  readonly waitingUploads: Series
}

/** A new upload that waits for memory, unread. */
interface Arrival {
  readonly bytes: number
  readonly deadlineMs: number
  readonly onDone: (claim: BodyClaim | undefined) => void
}

/** An upload that waits for more. */
interface Growth {
  readonly claim: BodyClaim
  readonly bytes: number
  readonly onGranted: () => void
}

/**
 * This worker's part of the memory for bodies. Where memory is short, slow uploads are ended, the slowest of all workers first.
 * What becomes free goes to uploads that have begun, then to the smallest of those that wait.
 */
export class BodyClaims {
  readonly #parts: BodyClaimsParts
  readonly #uploads = new Set<BodyClaim>()
  /** In the order of asking. */
  #growths: Growth[] = []
  /** The smallest first. */
  #arrivals: Arrival[] = []
  /** At the last look. */
  #wasShort = false
  #timer: NodeJS.Timeout | undefined

  constructor(parts: BodyClaimsParts) {
    this.#parts = parts
  }

  /** A claim for an upload that may begin at once. */
  open(bytes: number): BodyClaim | undefined {
    if (this.#growths.length > 0 || !this.#parts.memory.resize(0, bytes)) return undefined
    return this.#newClaim(bytes)
  }

  /** A claim for an upload that waits for it; none when that takes too long. Answers how to call the wait off. */
  wait(bytes: number, onDone: (claim: BodyClaim | undefined) => void): () => void {
    if (this.#arrivals.length >= MAX_WAITING) {
      onDone(undefined)
      return () => {}
    }
    const arrival = { bytes, deadlineMs: this.#parts.nowMs() + MAX_WAIT_MS, onDone }
    const place = this.#arrivals.findIndex((other) => other.bytes > bytes)
    this.#arrivals.splice(place < 0 ? this.#arrivals.length : place, 0, arrival)
    this.#noteWaiting()
    this.#lookOn()
    return () => {
      this.#arrivals = this.#arrivals.filter((other) => other !== arrival)
      this.#noteWaiting()
    }
  }

  /** Answers whether there was room at once. */
  grow(fromBytes: number, toBytes: number): boolean {
    return this.#growths.length === 0 && this.#resize(fromBytes, toBytes)
  }

  shrink(fromBytes: number, toBytes: number): void {
    this.#resize(fromBytes, toBytes)
    this.#grantWaiting()
  }

  growLater(growth: Growth): void {
    this.#growths.push(growth)
    this.#noteWaiting()
  }

  /** It is no upload any more: all of it is there, or nobody wants it. */
  close(claim: BodyClaim): void {
    this.#uploads.delete(claim)
    if (!this.#growths.some((growth) => growth.claim === claim)) return
    this.#growths = this.#growths.filter((growth) => growth.claim !== claim)
    this.#noteWaiting()
  }

  get nowMs(): number {
    return this.#parts.nowMs()
  }

  #newClaim(bytes: number): BodyClaim {
    const claim = new BodyClaim(this, bytes)
    this.#parts.heldBytes.count = this.#parts.memory.ownBytes
    this.#uploads.add(claim)
    this.#lookOn()
    return claim
  }

  #resize(fromBytes: number, toBytes: number): boolean {
    const { memory, heldBytes } = this.#parts
    const isDone = memory.resize(fromBytes, toBytes)
    heldBytes.count = memory.ownBytes
    return isDone
  }

  #grantWaiting(): void {
    let granted = 0
    for (let growth = this.#growths[0]; growth !== undefined && this.#resize(growth.claim.bytes, growth.bytes); growth = this.#growths[0]) {
      this.#growths.shift()
      growth.claim.grown(growth.bytes)
      growth.onGranted()
      granted++
    }
    if (this.#growths.length === 0) {
      for (let arrival = this.#arrivals[0]; arrival !== undefined && this.#resize(0, arrival.bytes); arrival = this.#arrivals[0]) {
        this.#arrivals.shift()
        arrival.onDone(this.#newClaim(arrival.bytes))
        granted++
      }
    }
    if (granted > 0) this.#noteWaiting()
  }

  #noteWaiting(): void {
    let bytes = 0
    for (const growth of this.#growths) bytes += growth.bytes - growth.claim.bytes
    for (const arrival of this.#arrivals) bytes += arrival.bytes
    this.#parts.memory.want(bytes)
    this.#parts.waitingUploads.count = this.#growths.length + this.#arrivals.length
  }

  #lookOn(): void {
    this.#timer ??= setInterval(() => this.#look(), LOOK_MS).unref()
  }

  #look(): void {
    this.#grantWaiting()
    this.#refuseOverdue()
    this.#endSlowest()
    if (this.#uploads.size > 0 || this.#arrivals.length > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  #refuseOverdue(): void {
    const nowMs = this.#parts.nowMs()
    const overdue = this.#arrivals.filter(({ deadlineMs }) => deadlineMs <= nowMs)
    if (overdue.length === 0) return
    this.#arrivals = this.#arrivals.filter(({ deadlineMs }) => deadlineMs > nowMs)
    this.#noteWaiting()
    for (const { onDone } of overdue) onDone(undefined)
  }

  /** As many as it takes until there is enough for all that wait. Those of other workers that are slower are left to them. */
  #endSlowest(): void {
    const { memory, nowMs } = this.#parts
    const now = nowMs()
    const slow = [...this.#uploads].filter((claim) => claim.isSlow(now)).sort((a, b) => slower(a, b, now))
    // From one look to the next, every worker has told of its slowest.
    const wasShort = this.#wasShort
    this.#wasShort = memory.shortBytes > 0
    /** Of uploads that were ended and pass on what they have. */
    let soonFreeBytes = 0
    for (const claim of slow) {
      if (!memory.compareSlowest(claim.broughtBytes(now)) || !wasShort || memory.shortBytes <= soonFreeBytes) return
      this.close(claim)
      claim.onEnd()
      soonFreeBytes += claim.bytes
    }
    memory.withdrawSlowest()
  }
}

/** The memory of one body: for as long as it is read, and until it is released. */
export class BodyClaim {
  readonly #claims: BodyClaims
  readonly #recent: RecentBytes
  #bytes: number
  #grantedAtMs: number
  #lastAtMs: number
  /** The upload must end: it is slow, and others wait for the memory. */
  onEnd: () => void = () => {}

  constructor(claims: BodyClaims, bytes: number) {
    this.#claims = claims
    this.#bytes = bytes
    this.#grantedAtMs = claims.nowMs
    this.#lastAtMs = this.#grantedAtMs
    this.#recent = new RecentBytes(this.#grantedAtMs)
  }

  get bytes(): number {
    return this.#bytes
  }

  /** So many bytes of the body have come. */
  note(bytes: number): void {
    this.#lastAtMs = this.#claims.nowMs
    this.#recent.add(bytes, this.#lastAtMs)
  }

  /** Answers whether there was room at once. */
  grow(bytes: number): boolean {
    const isGrown = this.#claims.grow(this.#bytes, bytes)
    if (isGrown) this.grown(bytes)
    return isGrown
  }

  growLater(bytes: number, onGranted: () => void): void {
    this.#claims.growLater({ claim: this, bytes, onGranted })
  }

  grown(bytes: number): void {
    this.#bytes = bytes
    this.#grantedAtMs = this.#claims.nowMs
  }

  /** All of the body that will be read is there: its pace matters no more. */
  complete(bytes: number): void {
    this.#claims.close(this)
    if (bytes < this.#bytes) this.#shrink(bytes)
  }

  release(): void {
    this.#claims.close(this)
    if (this.#bytes > 0) this.#shrink(0)
  }

  broughtBytes(nowMs: number): number {
    return this.#recent.sum(nowMs)
  }

  get lastAtMs(): number {
    return this.#lastAtMs
  }

  isSlow(nowMs: number): boolean {
    const ageMs = Math.min(nowMs - this.#grantedAtMs, RECENT_MS)
    return ageMs >= FIRST_MS && this.broughtBytes(nowMs) * SLOW_MS < this.#bytes * ageMs
  }

  #shrink(bytes: number): void {
    const before = this.#bytes
    this.#bytes = bytes
    this.#claims.shrink(before, bytes)
  }
}

/** Who brought least; of two that brought the same, who has been silent for longer. */
function slower(a: BodyClaim, b: BodyClaim, nowMs: number): number {
  return a.broughtBytes(nowMs) - b.broughtBytes(nowMs) || a.lastAtMs - b.lastAtMs
}
