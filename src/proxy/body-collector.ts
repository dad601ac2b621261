import type { IncomingMessage } from 'node:http'
import type { BodyClaim } from './body-claims.ts'

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

/**
 * Reads a body into the memory that is claimed for it. Returns why it was not read to its end, or undefined when the client went
 * away; then the claim is released. A body may come in pieces of a byte each, and each is an object of a hundred bytes and more: pieces are copied, not kept.
 */
export function collect(
  req: IncomingMessage,
  claim: BodyClaim,
  options: CollectOptions,
): Promise<Collected | 'body_too_large' | 'upload_too_slow' | undefined> {
  return new Promise((resolve) => {
    // A client that has already left emits no further event.
    if (req.destroyed) {
      claim.release()
      return resolve(undefined)
    }
    const { maxBytes, idleTimeoutMs, isEnforced } = options
    const blocks = new Blocks(claim)
    /** A piece waits for memory. */
    let isWaiting = false
    let hasEnded = false
    const finish = (outcome: Collected | 'body_too_large' | 'upload_too_slow' | undefined): void => {
      // A listener that stays would keep the blocks for as long as the request is open.
      req.off('data', onData).off('end', onEnd).off('close', onClose)
      req.socket.off('close', onClose)
      req.setTimeout(0)
      claim.onEnd = () => {}
      if (outcome === undefined || typeof outcome === 'string') claim.release()
      else claim.complete(outcome.bytes.length)
      resolve(outcome)
    }
    const finishPartial = (last?: Buffer): void => {
      req.pause()
      finish({ bytes: blocks.join(last), isPartial: true })
    }
    const onData = (chunk: Buffer): void => {
      claim.note(chunk.length)
      const size = blocks.size + chunk.length
      if (size > maxBytes) return isEnforced ? finish('body_too_large') : finishPartial(chunk)
      const nextClaim = Math.min(Math.max(claim.bytes * 2, size), maxBytes)
      if (size <= claim.bytes || claim.grow(nextClaim)) return blocks.add(chunk)
      if (!isEnforced) return finishPartial(chunk)
      req.pause()
      req.setTimeout(0)
      isWaiting = true
      claim.growLater(nextClaim, () => {
        isWaiting = false
        blocks.add(chunk)
        if (hasEnded) return onEnd()
        req.setTimeout(idleTimeoutMs)
        req.resume()
      })
    }
    // Behind the last piece a stream ends, paused or not, and then closes: that the client is gone only its socket tells.
    const onEnd = (): void => {
      if (!isWaiting) return finish({ bytes: blocks.join(), isPartial: false })
      hasEnded = true
      req.off('close', onClose)
      req.socket.once('close', onClose)
    }
    const onClose = (): void => finish(undefined)
    claim.onEnd = () => (isEnforced ? finish('upload_too_slow') : finishPartial())
    req.setTimeout(idleTimeoutMs)
    req.on('data', onData).once('end', onEnd).once('close', onClose)
  })
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
