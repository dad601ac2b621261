import type { Clock } from '../clock.ts'

/** A clock that stands still until it is moved, and never goes back. Both kinds of time are the same number, so they cannot drift apart. */
export class VirtualClock implements Clock {
  #ms: number

  constructor(startMs: number) {
    this.#ms = startMs
  }

  nowMs(): number {
    return this.#ms
  }

  wallMs(): number {
    return this.#ms
  }

  moveTo(ms: number): void {
    if (ms > this.#ms) this.#ms = ms
  }
}
