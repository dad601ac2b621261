import type { Series } from '../../telemetry/metrics/metric-families.ts'
import type { BodyMemory } from './body-memory.ts'
import type { MemoryHolder, MemoryHolders, MemoryPart, Resized } from './memory-part.ts'

/** How often a worker looks after its uploads, and hears of those that wait in other workers. */
const LOOK_MS = 100
/** How long a new upload waits for memory: longer than it takes to tell that one which stopped is slow. */
const MAX_WAIT_MS = 10_000
/** More do not wait: each may have sent 64 KiB with its head, which are in memory already. */
const MAX_WAITING = 256
/** Of one holder, for each of its shares: nobody takes all places from those who have memory left in theirs. */
const MAX_WAITING_PER_SHARE = MAX_WAITING / 4
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
  readonly holders: MemoryHolders
  /** What it has. */
  readonly claim: BodyClaim | undefined
  /** Where it would be at best. */
  readonly part: MemoryPart
  readonly neededBytes: number
  readonly deadlineMs: number
  readonly take: () => Resized
  readonly onGranted: () => void
  readonly onOverdue: () => void
}

/**
 * What this worker holds of the memory for bodies. Where memory is short, slow uploads are ended, the slowest of all workers first; where
 * somebody's share of it is, slow uploads of theirs. What becomes free goes to whoever needs least and has not used up its share.
 */
export class BodyClaims {
  readonly #parts: BodyClaimsParts
  readonly #uploads = new Set<BodyClaim>()
  /** By what they need. */
  #waiting: Waiting[] = []
  /** At the last look. */
  readonly #shortParts = new Set<MemoryPart>()
  #timer: NodeJS.Timeout | undefined

  constructor(parts: BodyClaimsParts) {
    this.#parts = parts
  }

  /** A claim for an upload that may begin at once. */
  open(holders: MemoryHolders, bytes: number): BodyClaim | undefined {
    const claim = new BodyClaim(this, holders, this.#parts.memory.partsFor(bytes)[0]!)
    return this.grow(claim, bytes) === 'done' ? this.#begin(claim) : undefined
  }

  /** A claim for an upload that waits for it; none when that takes too long. Returns how to call the wait off. */
  wait(holders: MemoryHolders, bytes: number, onDone: (claim: BodyClaim | undefined) => void): () => void {
    if (this.#waiting.length >= MAX_WAITING || this.#hasManyWaiting(holders)) {
      onDone(undefined)
      return () => {}
    }
    const [part] = this.#parts.memory.partsFor(bytes)
    const claim = new BodyClaim(this, holders, part!)
    const waiting = {
      holders,
      claim: undefined,
      part: part!,
      neededBytes: bytes,
      deadlineMs: this.#parts.nowMs() + MAX_WAIT_MS,
      take: () => this.grow(claim, bytes),
      onGranted: () => onDone(this.#begin(claim)),
      onOverdue: () => onDone(undefined),
    }
    this.#wait(waiting)
    return () => this.#forget((other) => other === waiting)
  }

  /** Until then it brings nothing: one that waits for long is slow. */
  growLater(claim: BodyClaim, toBytes: number, onGranted: () => void): void {
    const [part] = this.#parts.memory.partsFor(toBytes)
    this.#wait({
      holders: claim.holders,
      claim,
      part: part!,
      neededBytes: part === claim.part ? toBytes - claim.bytes : toBytes,
      deadlineMs: Number.POSITIVE_INFINITY,
      take: () => this.grow(claim, toBytes),
      onGranted,
      onOverdue: () => {},
    })
  }

  /** A body that outgrows the part for small ones moves to the rest. */
  grow(claim: BodyClaim, toBytes: number): Resized {
    const { holders, part: from, bytes } = claim
    let outcome: Resized = 'no_room'
    for (const part of this.#parts.memory.partsFor(toBytes)) {
      const resized = part.resize(holders, part === from ? bytes : 0, toBytes)
      if (resized === 'over_share') outcome = resized
      if (resized !== 'done') continue
      if (part !== from) from.resize(holders, bytes, 0)
      this.#noteResized(claim, part, toBytes)
      return resized
    }
    return outcome
  }

  shrink(claim: BodyClaim, toBytes: number): void {
    const { holders, part, bytes } = claim
    part.resize(holders, bytes, toBytes)
    this.#noteResized(claim, part, toBytes)
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

  #noteResized(claim: BodyClaim, part: MemoryPart, bytes: number): void {
    const { memory, heldBytes } = this.#parts
    claim.noteResized(part, bytes)
    heldBytes.count = memory.ownBytes
  }

  #begin(claim: BodyClaim): BodyClaim {
    this.#uploads.add(claim)
    this.#lookOn()
    return claim
  }

  #wait(waiting: Waiting): void {
    const place = this.#waiting.findIndex(({ neededBytes }) => neededBytes > waiting.neededBytes)
    this.#waiting.splice(place < 0 ? this.#waiting.length : place, 0, waiting)
    waiting.part.wait(waiting.holders, waiting.neededBytes)
    this.#parts.waitingUploads.count = this.#waiting.length
    this.#lookOn()
  }

  #hasManyWaiting(holders: MemoryHolders): boolean {
    return holders.some(({ cells, shares }) => {
      const isSame = (waiting: Waiting): boolean => waiting.holders.some((other) => other.cells === cells)
      return this.#waiting.filter(isSame).length >= shares * MAX_WAITING_PER_SHARE
    })
  }

  #forget(isOver: (waiting: Waiting) => boolean): Waiting[] {
    const over = this.#waiting.filter(isOver)
    if (over.length === 0) return over
    this.#waiting = this.#waiting.filter((waiting) => !over.includes(waiting))
    for (const { part, holders, neededBytes } of over) part.wait(holders, -neededBytes)
    this.#parts.waitingUploads.count = this.#waiting.length
    return over
  }

  /** Who cannot have the least of what is needed, of a part that is full or of a share, cannot have more of it. */
  #grantWaiting(): void {
    if (this.#waiting.length === 0) return
    const full = new Set<MemoryPart>()
    const overShare = new Set<string>()
    for (let i = 0; i < this.#waiting.length; ) {
      const next = this.#waiting[i++]!
      if (full.has(next.part) || overShare.has(this.#shareOf(next))) continue
      const outcome = next.take()
      if (outcome === 'no_room') full.add(next.part)
      else if (outcome === 'over_share') overShare.add(this.#shareOf(next))
      else {
        this.#forget((waiting) => waiting === next)
        next.onGranted()
        // Whoever was called may have changed the list.
        i = 0
      }
    }
  }

  /** A text for the part and all holders: any of them may be the one that has used up its share. */
  #shareOf({ holders, part }: Waiting): string {
    return `${part === this.#parts.memory.small} ${holders.map(({ cells }) => cells)}`
  }

  #lookOn(): void {
    this.#timer ??= setInterval(() => this.#look(), LOOK_MS).unref()
  }

  #look(): void {
    const nowMs = this.#parts.nowMs()
    this.#grantWaiting()
    for (const { onOverdue } of this.#forget(({ deadlineMs }) => deadlineMs <= nowMs)) onOverdue()
    this.#tellWanted()
    const { small, rest } = this.#parts.memory
    for (const part of [small, rest]) this.#endSlow(part)
    if (this.#uploads.size > 0 || this.#waiting.length > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  #tellWanted(): void {
    const { small, rest } = this.#parts.memory
    for (const part of [small, rest]) part.want(this.#wantedBytes(part))
  }

  /** What they wait for, without what is beyond their shares: nobody else's upload ends for that. */
  #wantedBytes(part: MemoryPart): number {
    const byHolder = new Map<number, number>()
    let wantedBytes = 0
    for (const { part: wanted, holders, neededBytes } of this.#waiting) {
      const withThis = ({ cells }: MemoryHolder): number => (byHolder.get(cells) ?? 0) + neededBytes
      if (wanted !== part || !holders.every((holder) => part.hasShare(holder, withThis(holder)))) continue
      for (const holder of holders) byHolder.set(holder.cells, withThis(holder))
      wantedBytes += neededBytes
    }
    return wantedBytes
  }

  #endSlow(part: MemoryPart): void {
    const nowMs = this.#parts.nowMs()
    const isSlow = (claim: BodyClaim): boolean => claim.part === part && claim.isSlow(nowMs)
    const slow = [...this.#uploads].filter(isSlow).sort((a, b) => slower(a, b, nowMs))
    for (const claim of slow) if (part.isShareShort(claim.holders)) this.#end(claim)
    const others = slow.filter((claim) => this.#uploads.has(claim))
    this.#endSlowest(part, others, nowMs)
  }

  /** As many as it takes until there is enough for all that wait. Those of other workers that are slower are left to them. */
  #endSlowest(part: MemoryPart, slow: readonly BodyClaim[], nowMs: number): void {
    // From one look to the next, every worker has told of its slowest.
    const wasShort = this.#shortParts.has(part)
    if (part.shortBytes > 0) this.#shortParts.add(part)
    else this.#shortParts.delete(part)
    /** Of uploads that were ended and pass on what they have. */
    let soonFreeBytes = 0
    for (const claim of slow) {
      if (!part.compareSlowest(claim.broughtBytes(nowMs)) || !wasShort || part.shortBytes <= soonFreeBytes) return
      this.#end(claim)
      soonFreeBytes += claim.bytes
    }
    part.withdrawSlowest()
  }

  #end(claim: BodyClaim): void {
    this.close(claim)
    claim.onEnd()
    // Who got what became free wants it no longer, and nobody else has to end for it.
    this.#tellWanted()
  }
}

/** The memory of one body: for as long as it is read, and until it is released. */
export class BodyClaim {
  readonly #claims: BodyClaims
  readonly #recent: RecentBytes
  readonly holders: MemoryHolders
  #part: MemoryPart
  #bytes = 0
  #grantedAtMs: number
  #lastAtMs: number
  /** The upload must end: it is slow, and others wait for the memory. */
  onEnd: () => void = () => {}

  constructor(claims: BodyClaims, holders: MemoryHolders, part: MemoryPart) {
    this.#claims = claims
    this.holders = holders
    this.#part = part
    this.#grantedAtMs = claims.nowMs
    this.#lastAtMs = this.#grantedAtMs
    this.#recent = new RecentBytes(this.#grantedAtMs)
  }

  get bytes(): number {
    return this.#bytes
  }

  /** Where it is. */
  get part(): MemoryPart {
    return this.#part
  }

  /** So many bytes of the body have come. */
  note(bytes: number): void {
    this.#lastAtMs = this.#claims.nowMs
    this.#recent.add(bytes, this.#lastAtMs)
  }

  /** Returns whether there was room at once. */
  grow(bytes: number): boolean {
    return this.#claims.grow(this, bytes) === 'done'
  }

  growLater(bytes: number, onGranted: () => void): void {
    this.#claims.growLater(this, bytes, onGranted)
  }

  /** It has so much from now on. */
  noteResized(part: MemoryPart, bytes: number): void {
    const nowMs = this.#claims.nowMs
    // A new one may have waited until now.
    if (this.#bytes === 0) this.#lastAtMs = nowMs
    if (bytes > this.#bytes) this.#grantedAtMs = nowMs
    this.#part = part
    this.#bytes = bytes
  }

  /** All of the body that will be read is there: its pace matters no more. */
  complete(bytes: number): void {
    this.#claims.close(this)
    if (bytes < this.#bytes) this.#claims.shrink(this, bytes)
  }

  release(): void {
    this.#claims.close(this)
    if (this.#bytes > 0) this.#claims.shrink(this, 0)
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
}

/** Who brought least; of two that brought the same, who has been silent for longer. */
function slower(a: BodyClaim, b: BodyClaim, nowMs: number): number {
  return a.broughtBytes(nowMs) - b.broughtBytes(nowMs) || a.lastAtMs - b.lastAtMs
}

/** The window. Of its oldest second all bytes count, so it may be up to a second longer. */
export const RECENT_MS = 5000
const SLOT_MS = 1000
const SLOTS = RECENT_MS / SLOT_MS + 1

/** How many bytes came in the last five seconds. */
export class RecentBytes {
  readonly #counts = [0, 0, 0, 0, 0, 0]
  #slot: number

  constructor(nowMs: number) {
    this.#slot = Math.floor(nowMs / SLOT_MS)
  }

  add(bytes: number, nowMs: number): void {
    this.#moveTo(nowMs)
    this.#counts[this.#slot % SLOTS]! += bytes
  }

  sum(nowMs: number): number {
    this.#moveTo(nowMs)
    let sum = 0
    for (const count of this.#counts) sum += count
    return sum
  }

  #moveTo(nowMs: number): void {
    const slot = Math.floor(nowMs / SLOT_MS)
    const passed = Math.min(slot - this.#slot, SLOTS)
    for (let i = 0; i < passed; i++) this.#counts[(slot - i) % SLOTS] = 0
    if (passed > 0) this.#slot = slot
  }
}
