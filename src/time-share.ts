/** No piece of work takes longer. A thread that seems to have worked for longer stood still with its machine, which is nobody's work. */
const LONGEST_WORK_MS = 100

/** Bounds how much of a thread's time something takes: whoever has used up more than the share waits until it has grown back. */
export class TimeShare {
  readonly #share: number
  readonly #burstMs: number
  #leftMs: number
  #atMs: number

  /** `share` of all time, and `burstMs` of work at a time without a wait. */
  constructor(share: number, burstMs: number, nowMs: number) {
    this.#share = share
    this.#burstMs = burstMs
    this.#leftMs = burstMs
    this.#atMs = nowMs
  }

  spend(workMs: number, nowMs: number): void {
    this.#refill(nowMs)
    this.#leftMs -= Math.min(workMs, LONGEST_WORK_MS)
  }

  /** How long to wait before the next piece of work. 0: it may begin now, however long it takes. */
  waitMs(nowMs: number): number {
    this.#refill(nowMs)
    return this.#leftMs >= 0 ? 0 : Math.ceil(-this.#leftMs / this.#share)
  }

  #refill(nowMs: number): void {
    this.#leftMs = Math.min(this.#burstMs, this.#leftMs + (nowMs - this.#atMs) * this.#share)
    this.#atMs = nowMs
  }
}
