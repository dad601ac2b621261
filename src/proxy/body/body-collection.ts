import type { BodyReader, BodySource } from '../downstream.ts'
import type { BodyClaim } from './body-claims.ts'

export interface CollectOptions {
  readonly maxBytes: number
  /** How long the client may pause. */
  readonly idleTimeoutMs: number
  /** If true, a body is refused as soon as no more of it may be held; otherwise what was read so far is passed on. */
  readonly isEnforced: boolean
}

export interface Collected {
  readonly bytes: Buffer
  /** More of the body is to come than may be read. */
  readonly isPartial: boolean
}

/** First claim for a body of unknown length; from then on the claim is doubled. */
export const FIRST_STEP_BYTES = 64 * 1024

/** The reason why a body was not read to its end. */
type Refusal = 'body_too_large' | 'upload_too_slow'

/**
 * Reads a body into the memory that is claimed for it. Returns undefined if the client left, or the reason why the body was not read to its end;
 * then the claim is released. Pieces are copied, not kept: a body may come in pieces of one byte, each of which would be an object of a hundred
 * bytes or more.
 */
export function collect(body: BodySource, claim: BodyClaim, options: CollectOptions): Promise<Collected | Refusal | undefined> {
  const collection = new Collection(body, claim, options)
  // A client that has already left does not cause another onGone.
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
  /** The end came while the last piece was waiting. */
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
    if (!this.#body.isComplete) this.#claim.watch()
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
    // A source may reach its end after the last piece even if it is paused.
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
        // The error must not reach the code that gave the memory back.
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

  /** Detaches from the body. A reader that stays attached would keep the blocks for as long as the request is open. */
  #leave(): void {
    this.#body.giveTo(undefined)
    this.#body.limitIdle(0)
    this.#claim.onEnd = () => {}
  }
}

const EMPTY = Buffer.alloc(0)

/** As much memory as is claimed, in a few blocks, each allocated when there is something to put into it. */
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

  /** Returns everything that was added, followed by `last`. */
  join(last: Buffer = EMPTY): Buffer {
    const blocks = this.#blocks
    if (blocks.length === 1 && last.length === 0 && this.size === this.#capacity) return blocks[0]!
    const free = this.#capacity - this.size
    const end = blocks.pop()
    return Buffer.concat(end === undefined ? [last] : [...blocks, end.subarray(0, end.length - free), last], this.size + last.length)
  }

  #extend(): void {
    const bytes = this.#claim.bytes - this.#capacity
    // Small buffers from Node's pool would each keep the whole pool in memory.
    this.#blocks.push(Buffer.allocUnsafeSlow(bytes))
    this.#capacity += bytes
  }
}
