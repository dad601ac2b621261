import type { Logger } from 'pino'
import type { Engine } from '../../engine/engine.ts'
import { holdMs, type ReservedCharge } from '../../engine/reservation.ts'
import type { HoldMetrics } from '../../telemetry/metrics/llm-metrics.ts'
import type { Clock } from '../../time/clock.ts'

export interface HoldParts {
  readonly engine: Engine
  readonly clock: Clock
  readonly logger: Logger
  readonly metrics: HoldMetrics
}

/** A hold is renewed when a quarter of its time is over. That leaves time for a thread or a store that is busy. */
const RENEWED_AFTER = 1 / 4
/** Due holds are looked for this often, as a share of the same time. */
const LOOKED_EVERY = 1 / 8
/** From this share of its time on, a hold may have ended. */
const LATE_AFTER = 7 / 8
/** Few enough at once that requests do not wait for them. */
const BATCH = 64

/** The holds of all requests under way in this worker. They are renewed until they are released. */
export class OpenHolds {
  readonly #parts: HoldParts
  /** By how long they last: what is due is then at the front of a list. */
  readonly #lists = new Map<number, HoldList>()

  constructor(parts: HoldParts) {
    this.#parts = parts
  }

  /** Keeps the holds of one request until it is over. */
  keep(charges: readonly ReservedCharge[]): HeldRequest {
    return new HeldRequest(charges.map((charge) => new Hold(charge, this.#parts, this.#listFor(holdMs(charge)))))
  }

  /** Renews what is due. Resolves when that is done. */
  async renewDue(): Promise<void> {
    await Promise.all(Array.from(this.#lists.values(), (list) => list.renewDue()))
  }

  #listFor(lastsMs: number): HoldList {
    const known = this.#lists.get(lastsMs)
    if (known !== undefined) return known
    const list = new HoldList(lastsMs, this.#parts.clock)
    this.#lists.set(lastsMs, list)
    return list
  }
}

/** The holds of one request. Of all the ends that it can have, the first releases them. */
export class HeldRequest {
  readonly #holds: readonly Hold[]

  constructor(holds: readonly Hold[]) {
    this.#holds = holds
  }

  release(): void {
    for (const hold of this.#holds) hold.release()
  }
}

/** Open holds that last equally long, the one that was renewed the longest time ago first. One timer for all, and none while there are none. */
class HoldList {
  readonly #lastsMs: number
  readonly #clock: Clock
  readonly #holds = new Set<Hold>()
  #timer: NodeJS.Timeout | undefined
  #isRenewing = false

  constructor(lastsMs: number, clock: Clock) {
    this.#lastsMs = lastsMs
    this.#clock = clock
  }

  add(hold: Hold): void {
    hold.renewedMs = this.#clock.nowMs()
    this.#holds.add(hold)
    this.#timer ??= setInterval(() => void this.renewDue(), this.#lastsMs * LOOKED_EVERY).unref()
  }

  delete(hold: Hold): void {
    this.#holds.delete(hold)
    if (this.#holds.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  async renewDue(): Promise<void> {
    if (this.#isRenewing) return
    this.#isRenewing = true
    for (let due = this.#nextDue(); due.length > 0; due = this.#nextDue()) {
      await Promise.all(due.map((hold) => hold.renew()))
      await new Promise((resolve) => {
        setImmediate(resolve)
      })
    }
    this.#isRenewing = false
  }

  /** Puts them at the end of the list. */
  #nextDue(): Hold[] {
    const nowMs = this.#clock.nowMs()
    const due: Hold[] = []
    for (const hold of this.#holds) {
      if (due.length === BATCH || nowMs - hold.renewedMs < this.#lastsMs * RENEWED_AFTER) break
      due.push(hold)
    }
    for (const hold of due) {
      hold.isLate = nowMs - hold.renewedMs >= this.#lastsMs * LATE_AFTER
      hold.renewedMs = nowMs
      this.#holds.delete(hold)
      this.#holds.add(hold)
    }
    return due
  }
}

/** One rule's hold. */
class Hold {
  renewedMs = 0
  /** Its last renewal may have come after its end: then it was taken again. */
  isLate = false
  readonly #parts: HoldParts
  readonly #list: HoldList
  #charge: ReservedCharge
  #isRenewing = false
  #isReleased = false

  constructor(charge: ReservedCharge, parts: HoldParts, list: HoldList) {
    this.#charge = charge
    this.#parts = parts
    this.#list = list
    parts.metrics.open.count++
    list.add(this)
  }

  /** Never rejects: one that fails is tried again when it is due again. */
  async renew(): Promise<void> {
    const { engine, metrics } = this.#parts
    this.#isRenewing = true
    try {
      this.#charge = { ...this.#charge, taken: await engine.renew(this.#charge) }
      metrics.countRenewal(this.isLate ? 'late' : 'renewed')
    } catch (error) {
      metrics.countRenewal('failed')
      this.#logFailure(
        'hold_not_renewed',
        'the hold of a request in flight could not be renewed; it may end before the request does',
        error,
      )
    }
    this.#isRenewing = false
    if (this.#isReleased) await this.#settle()
  }

  release(): void {
    if (this.#isReleased) return
    this.#isReleased = true
    this.#parts.metrics.open.count--
    this.#list.delete(this)
    // A renewal that is pending decides what is to be released.
    if (!this.#isRenewing) void this.#settle()
  }

  async #settle(): Promise<void> {
    try {
      await this.#parts.engine.settle(this.#charge, 0)
    } catch (error) {
      this.#logFailure('hold_not_released', 'a request in flight could not be released; it counts until its hold ends', error)
    }
  }

  #logFailure(event: 'hold_not_renewed' | 'hold_not_released', message: string, error: unknown): void {
    const { policy, name } = this.#charge.rule
    this.#parts.logger.error({ event, policy: policy.id, rule: name, err: error }, message)
  }
}
