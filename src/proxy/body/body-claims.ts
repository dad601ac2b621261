import type { Series } from '../../telemetry/metrics/metric-families.ts'
import type { BodyMemory } from './body-memory.ts'
import type { MemoryHolder, MemoryHolders, MemoryPart, Resized } from './memory-part.ts'

/** How often a worker checks its own uploads and whether uploads wait in other workers. */
const LOOK_MS = 100
/** How long a new upload waits for memory. This is longer than it takes to detect that a stalled upload is slow. */
const MAX_WAIT_MS = 10_000
/** New uploads beyond this number do not wait: each may have sent 64 KiB with its head, which are in memory already. */
const MAX_WAITING = 256
/** How many uploads of one holder may wait, per share that it has. So no holder can fill the queue and shut out those with memory left in their shares. */
const MAX_WAITING_PER_SHARE = MAX_WAITING / 4
/** An upload is not judged until this long after it was last granted memory. */
const FIRST_MS = 1000
/** An upload is slow if, at its current pace, it would take longer than this to bring as many bytes as it has claimed. */
const SLOW_MS = 60_000

export interface BodyClaimsParts {
  readonly memory: BodyMemory
  readonly nowMs: () => number
  readonly heldBytes: Series
  readonly waitingUploads: Series
}

/** An upload that waits for memory: a new one, of which nothing was read, or one that has begun and needs more. */
interface Waiting {
  readonly holders: MemoryHolders
  /** The claim of an upload that has begun; undefined for a new one. */
  readonly claim: BodyClaim | undefined
  /** The part of the memory that suits it best. */
  readonly part: MemoryPart
  readonly neededBytes: number
  readonly deadlineMs: number
  readonly take: () => Resized
  readonly onGranted: () => void
  readonly onOverdue: () => void
}

/**
 * The memory for bodies that this worker holds. If memory is short, slow uploads are ended, the slowest of all workers first; if a holder's share
 * is short, slow uploads of that holder. Freed memory goes to whoever needs the least and has not used up its share.
 */
export class BodyClaims {
  readonly #parts: BodyClaimsParts
  readonly #uploads = new Set<BodyClaim>()
  /** Sorted by the bytes they need, the least first. */
  #waiting: Waiting[] = []
  /** Parts of the memory that were short at the last look. */
  readonly #shortParts = new Set<MemoryPart>()
  #timer: NodeJS.Timeout | undefined

  constructor(parts: BodyClaimsParts) {
    this.#parts = parts
  }

  /** Returns a claim for an upload that may begin at once, or undefined if there is no room for it. */
  open(holders: MemoryHolders, bytes: number): BodyClaim | undefined {
    const claim = new BodyClaim(this, holders, this.#parts.memory.partsFor(bytes)[0]!)
    return this.grow(claim, bytes) === 'done' ? claim : undefined
  }

  /** To be called when an upload has to wait for its client: from now on it may turn out to be slow. */
  watch(claim: BodyClaim): void {
    this.#uploads.add(claim)
    this.#lookOn()
  }

  /** Waits for a claim. `onDone` gets undefined if that takes too long, or if too many uploads wait already. Returns a function that cancels the wait. */
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
      onGranted: () => onDone(claim),
      onOverdue: () => onDone(undefined),
    }
    this.#wait(waiting)
    return () => this.#forget((other) => other === waiting)
  }

  /** Grows a claim as soon as there is room. Until then the upload brings nothing, so one that waits for long becomes slow. */
  growLater(claim: BodyClaim, toBytes: number, onGranted: () => void): void {
    this.watch(claim)
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

  /** Grows a claim if there is room. A body that outgrows the part for small ones moves to the rest. */
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

  /** To be called when the upload is over: the body is complete, or nobody wants it. */
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

  #wait(waiting: Waiting): void {
    const index = this.#waiting.findIndex(({ neededBytes }) => neededBytes > waiting.neededBytes)
    this.#waiting.splice(index < 0 ? this.#waiting.length : index, 0, waiting)
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

  #forget(isOver: (waiting: Waiting) => boolean): readonly Waiting[] {
    if (this.#waiting.length === 0) return this.#waiting
    const over = this.#waiting.filter(isOver)
    if (over.length === 0) return over
    this.#waiting = this.#waiting.filter((waiting) => !over.includes(waiting))
    for (const { part, holders, neededBytes } of over) part.wait(holders, -neededBytes)
    this.#parts.waitingUploads.count = this.#waiting.length
    return over
  }

  /** Grants memory to those who need the least first. Where a part or a share has too little left for one upload, it has too little for the later ones. */
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
        // The callback may have changed the list.
        i = 0
      }
    }
  }

  /** Returns a key for the part and all holders together, because any of the holders may be the one that has used up its share. */
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

  /** Sums what the waiting uploads need, without what exceeds their shares: no upload of another holder is ended for that. */
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

  /** Ends as many uploads as it takes to have enough memory for all that wait. Slower uploads of other workers are left to those workers. */
  #endSlowest(part: MemoryPart, slow: readonly BodyClaim[], nowMs: number): void {
    // Between two looks every worker announces its slowest upload, so nothing is ended unless memory was already short at the last look.
    const wasShort = this.#shortParts.has(part)
    if (part.shortBytes > 0) this.#shortParts.add(part)
    else this.#shortParts.delete(part)
    /** Bytes that ended uploads still hold, because what was read of them is passed on. */
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
    // The freed memory may have been granted already, so less is wanted now, and no other upload has to end for it.
    this.#tellWanted()
  }
}

/** The memory of one body, from the start of its upload until it is released. */
export class BodyClaim {
  readonly #claims: BodyClaims
  readonly #recent: RecentBytes
  readonly holders: MemoryHolders
  #part: MemoryPart
  #bytes = 0
  #grantedAtMs: number
  #lastAtMs: number
  /** Called when the upload must end, because it is slow and others wait for memory. */
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

  /** The part of the memory that the claim belongs to. */
  get part(): MemoryPart {
    return this.#part
  }

  /** To be called when the upload has to wait for its client. */
  watch(): void {
    this.#claims.watch(this)
  }

  /** To be called when this many bytes of the body have arrived. */
  note(bytes: number): void {
    this.#lastAtMs = this.#claims.nowMs
    this.#recent.add(bytes, this.#lastAtMs)
  }

  /** Grows the claim to this size. Returns false if there is no room at present. */
  grow(bytes: number): boolean {
    return this.#claims.grow(this, bytes) === 'done'
  }

  growLater(bytes: number, onGranted: () => void): void {
    this.#claims.growLater(this, bytes, onGranted)
  }

  /** To be called when the claim has got another size. */
  noteResized(part: MemoryPart, bytes: number): void {
    const nowMs = this.#claims.nowMs
    // A new claim may have waited until now.
    if (this.#bytes === 0) this.#lastAtMs = nowMs
    if (bytes > this.#bytes) this.#grantedAtMs = nowMs
    this.#part = part
    this.#bytes = bytes
  }

  /** To be called when all that will be read of the body has arrived. From then on its pace does not matter. */
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

/** Sorts the slowest first: the upload that brought the fewest bytes lately or, if equal, that has been silent for longer. */
function slower(a: BodyClaim, b: BodyClaim, nowMs: number): number {
  return a.broughtBytes(nowMs) - b.broughtBytes(nowMs) || a.lastAtMs - b.lastAtMs
}

/** Length of the window. All bytes of its oldest second count, so it may be up to a second longer. */
export const RECENT_MS = 5000
const SLOT_MS = 1000
const SLOTS = RECENT_MS / SLOT_MS + 1

/** Counts the bytes that arrived in the last five seconds. */
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
