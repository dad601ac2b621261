import type { BodyClaim } from './body-claims.ts'
import type { BodyReader, BodySource } from './body-source.ts'

export interface CollectOptions {
  readonly maxBytes: number
  /** How long the client may pause. */
  readonly idleTimeoutMs: number
  /** A body of which no more may be held is refused; else it is given out as far as it came. */
  readonly isEnforced: boolean
}

export interface Collected {
  readonly bytes: Buffer
  /** There is more to come than may be read. */
  readonly isPartial: boolean
}

/** What is in memory before a body's length is known; from there on the claim is doubled. */
export const FIRST_STEP_BYTES = 64 * 1024

/** Why a body was not read to its end. */
type Refusal = 'body_too_large' | 'upload_too_slow'

/**
 * Reads a body into the memory that is claimed for it. Returns why it was not read to its end, or undefined when the client went
 * away; then the claim is released. A body may come in pieces of a byte each, and each is an object of a hundred bytes and more: pieces are copied, not kept.
 */
export function collect(body: BodySource, claim: BodyClaim, options: CollectOptions): Promise<Collected | Refusal | undefined> {
  const collection = new Collection(body, claim, options)
  // A client that has already left is not told of again.
  if (body.isGone) collection.onGone()
  else collection.start()
  return collection.outcome
}

class Collection implements BodyReader {
  readonly outcome: Promise<Collected | Refusal | undefined>
  #resolve!: (outcome: Collected | Refusal | undefined) => void
  #reject!: (error: unknown) => void
  readonly #body: BodySource
  readonly #claim: BodyClaim
  readonly #options: CollectOptions
  readonly #blocks: Blocks
  /** A piece waits for memory. */
  #isWaiting = false
  /** The end has come while the last piece waited. */
  #hasEnded = false

  constructor(body: BodySource, claim: BodyClaim, options: CollectOptions) {
    this.#body = body
    this.#claim = claim
    this.#options = options
    this.#blocks = new Blocks(claim)
    this.outcome = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
  }

  start(): void {
    this.#claim.onEnd = () => (this.#options.isEnforced ? this.#finish('upload_too_slow') : this.#finishPartial())
    this.#body.giveTo(this)
    this.#goOn()
  }

  onData(chunk: Buffer): void {
    const claim = this.#claim
    const { maxBytes, isEnforced } = this.#options
    claim.note(chunk.length)
    const size = this.#blocks.size + chunk.length
    if (size > maxBytes) return isEnforced ? this.#finish('body_too_large') : this.#finishPartial(chunk)
    const nextClaim = Math.min(Math.max(claim.bytes * 2, size), maxBytes)
    if (size <= claim.bytes || claim.grow(nextClaim)) return this.#blocks.add(chunk)
    if (!isEnforced) return this.#finishPartial(chunk)
    this.#waitFor(nextClaim, chunk)
  }

  onEnd(): void {
    // A source may end behind its last piece though it is paused.
    if (this.#isWaiting) this.#hasEnded = true
    else this.#finish({ bytes: this.#blocks.join(), isPartial: false })
  }

  onGone(): void {
    this.#finish(undefined)
  }

  abandon(error: unknown): void {
    this.#leave()
    this.#claim.release()
    this.#reject(error)
  }

  #goOn(): void {
    this.#body.limitIdle(this.#options.idleTimeoutMs)
    this.#body.resume()
  }

  #waitFor(claimBytes: number, chunk: Buffer): void {
    this.#body.pause()
    this.#body.limitIdle(0)
    this.#isWaiting = true
    const kept = Buffer.from(chunk)
    this.#claim.growLater(claimBytes, () => {
      this.#isWaiting = false
      try {
        this.#blocks.add(kept)
        if (this.#hasEnded) this.onEnd()
        else this.#goOn()
      } catch (error) {
        // It must not reach whoever gave the memory back.
        this.abandon(error)
      }
    })
  }

  #finishPartial(last?: Buffer): void {
    this.#body.pause()
    this.#finish({ bytes: this.#blocks.join(last), isPartial: true })
  }

  #finish(outcome: Collected | Refusal | undefined): void {
    this.#leave()
    if (outcome === undefined || typeof outcome === 'string') this.#claim.release()
    else this.#claim.complete(outcome.bytes.length)
    this.#resolve(outcome)
  }

  /** A reader that stays would keep the blocks for as long as the request is open. */
  #leave(): void {
    this.#body.giveTo(undefined)
    this.#body.limitIdle(0)
    this.#claim.onEnd = () => {}
  }
}

/** As much memory as is claimed, in few blocks, each made when there is something to put into it. */
class Blocks {
  readonly #claim: BodyClaim
  readonly #blocks: Buffer[] = []
  #capacity = 0
  size = 0

  constructor(claim: BodyClaim) {
    this.#claim = claim
  }

  add(chunk: Buffer): void {
    for (let at = 0; at < chunk.length; ) {
      if (this.size === this.#capacity) this.#extend()
      const block = this.#blocks.at(-1)!
      const copied = chunk.copy(block, block.length - (this.#capacity - this.size), at)
      this.size += copied
      at += copied
    }
  }

  /** All that was added, and `last`. */
  join(last: Buffer = EMPTY): Buffer {
    const blocks = this.#blocks
    if (blocks.length === 1 && last.length === 0 && this.size === this.#capacity) return blocks[0]!
    const free = this.#capacity - this.size
    const end = blocks.pop()
    return Buffer.concat(end === undefined ? [last] : [...blocks, end.subarray(0, end.length - free), last], this.size + last.length)
  }

  #extend(): void {
    const bytes = this.#claim.bytes - this.#capacity
    // Not from the pool that small buffers share, and that each of them keeps whole.
    this.#blocks.push(Buffer.allocUnsafeSlow(bytes))
    this.#capacity += bytes
  }
}

const EMPTY = Buffer.alloc(0)
