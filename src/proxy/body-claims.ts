import type { Series } from '../telemetry/metrics/counter-family.ts'
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

/** Who waits for memory: a new upload, unread, or one that has begun and needs more. */
interface Waiting {
  /** What it has. */
  readonly claim: BodyClaim | undefined
  readonly neededBytes: number
  readonly deadlineMs: number
  readonly onGranted: () => void
  readonly onOverdue: () => void
}

/**
 * This worker's part of the memory for bodies. Where memory is short, slow uploads are ended, the slowest of all workers first.
 * What becomes free goes to whoever needs least.
 */
export class BodyClaims {
  readonly #parts: BodyClaimsParts
  readonly #uploads = new Set<BodyClaim>()
  /** By what they need. */
  #waiting: Waiting[] = []
  /** At the last look. */
  #wasShort = false
  #timer: NodeJS.Timeout | undefined

  constructor(parts: BodyClaimsParts) {
    this.#parts = parts
  }

  /** A claim for an upload that may begin at once. */
  open(bytes: number): BodyClaim | undefined {
    return this.resize(0, bytes) ? this.#newClaim(bytes) : undefined
  }

  /** A claim for an upload that waits for it; none when that takes too long. Returns how to call the wait off. */
  wait(bytes: number, onDone: (claim: BodyClaim | undefined) => void): () => void {
    if (this.#waiting.length >= MAX_WAITING) {
      onDone(undefined)
      return () => {}
    }
    const waiting = {
      claim: undefined,
      neededBytes: bytes,
      deadlineMs: this.#parts.nowMs() + MAX_WAIT_MS,
      onGranted: () => onDone(this.#newClaim(bytes)),
      onOverdue: () => onDone(undefined),
    }
    this.#wait(waiting)
    return () => this.#forget((other) => other === waiting)
  }

  /** Until then it brings nothing: one that waits for long is slow. */
  growLater(claim: BodyClaim, toBytes: number, onGranted: () => void): void {
    this.#wait({ claim, neededBytes: toBytes - claim.bytes, deadlineMs: Number.POSITIVE_INFINITY, onGranted, onOverdue: () => {} })
  }

  /** Returns whether there was room. */
  resize(fromBytes: number, toBytes: number): boolean {
    const { memory, heldBytes } = this.#parts
    const isDone = memory.resize(fromBytes, toBytes)
    heldBytes.count = memory.ownBytes
    return isDone
  }

  shrink(fromBytes: number, toBytes: number): void {
    this.resize(fromBytes, toBytes)
    this.#grantWaiting()
  }

  /** It is no upload any more: all of it is there, or nobody wants it. */
  close(claim: BodyClaim): void {
    this.#uploads.delete(claim)
    this.#forget((waiting) => waiting.claim === claim)
  }

  get nowMs(): number {
    return this.#parts.nowMs()
  }

  #newClaim(bytes: number): BodyClaim {
    const claim = new BodyClaim(this, bytes)
    this.#uploads.add(claim)
    this.#lookOn()
    return claim
  }

  #wait(waiting: Waiting): void {
    const place = this.#waiting.findIndex(({ neededBytes }) => neededBytes > waiting.neededBytes)
    this.#waiting.splice(place < 0 ? this.#waiting.length : place, 0, waiting)
    this.#noteWaiting()
    this.#lookOn()
  }

  #forget(isOver: (waiting: Waiting) => boolean): Waiting[] {
    const over = this.#waiting.filter(isOver)
    if (over.length === 0) return over
    this.#waiting = this.#waiting.filter((waiting) => !over.includes(waiting))
    this.#noteWaiting()
    return over
  }

  #grantWaiting(): void {
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      const fromBytes = next.claim?.bytes ?? 0
      if (!this.resize(fromBytes, fromBytes + next.neededBytes)) return
      this.#waiting.shift()
      this.#noteWaiting()
      next.onGranted()
    }
  }

  #noteWaiting(): void {
    let bytes = 0
    for (const { neededBytes } of this.#waiting) bytes += neededBytes
    this.#parts.memory.want(bytes)
    this.#parts.waitingUploads.count = this.#waiting.length
  }

  #lookOn(): void {
    this.#timer ??= setInterval(() => this.#look(), LOOK_MS).unref()
  }

  #look(): void {
    const nowMs = this.#parts.nowMs()
    this.#grantWaiting()
    for (const { onOverdue } of this.#forget(({ deadlineMs }) => deadlineMs <= nowMs)) onOverdue()
    this.#endSlowest()
    if (this.#uploads.size > 0 || this.#waiting.length > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
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

  /** Returns whether there was room at once. */
  grow(bytes: number): boolean {
    const isGrown = this.#claims.resize(this.#bytes, bytes)
    if (isGrown) this.#grown(bytes)
    return isGrown
  }

  growLater(bytes: number, onGranted: () => void): void {
    this.#claims.growLater(this, bytes, () => {
      this.#grown(bytes)
      onGranted()
    })
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

  #grown(bytes: number): void {
    this.#bytes = bytes
    this.#grantedAtMs = this.#claims.nowMs
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
