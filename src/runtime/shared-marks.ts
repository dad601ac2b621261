import type { ReservationName } from '../reservations/reservation-name.ts'
import type { MarkOutcome, SettledMarks } from '../reservations/settled-marks.ts'
import { LinkError } from '../store/redis/link/link-error.ts'
import type { ReservationScript } from '../store/redis/reservation-script.ts'

/** Longer than a reservation can be settled, by clocks that differ a little. From a clock that is ahead of ours, it can for longer. */
const KEPT_MS = 130 * 60 * 1000

/** Marks in Redis, for all instances: a bitmap for each worker and hour. */
export class SharedMarks implements SettledMarks {
  readonly #script: ReservationScript
  readonly #prefix: string
  readonly #wallMs: () => number

  constructor(script: ReservationScript, prefix: string, wallMs: () => number) {
    this.#script = script
    this.#prefix = prefix
    this.#wallMs = wallMs
  }

  async mark({ instance, run, worker, hour, number }: ReservationName, issuedMs: number): Promise<MarkOutcome> {
    const key = `${this.#prefix}settled:${instance}:${run}:${worker}:${hour}`
    const keptMs = KEPT_MS + Math.max(0, Math.ceil(issuedMs - this.#wallMs()))
    try {
      return (await this.#script.mark(key, number, keptMs)) ? 'already' : 'marked'
    } catch (error) {
      if (!(error instanceof LinkError)) throw error
      return error.outcome === 'unknown' ? 'unknown' : 'unavailable'
    }
  }
}
