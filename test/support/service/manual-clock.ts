import type { Clock } from '../../../src/time/clock.ts'

/** A clock that moves when told. */
export class ManualClock implements Clock {
  #nowMs = 1_000_000
  #wallMs = Date.UTC(2026, 0, 15, 12)

  nowMs(): number {
    return this.#nowMs
  }

  wallMs(): number {
    return this.#wallMs
  }

  advance(ms: number): void {
    this.#nowMs += ms
    this.#wallMs += ms
  }

  /** What people read is set back; what only ever grows stays. */
  setBack(ms: number): void {
    this.#wallMs -= ms
  }
}
