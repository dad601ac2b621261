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

/** A hold is renewed after a quarter of its time, which leaves a margin for a busy thread or store. */
const RENEWED_AFTER = 1 / 4
/** How often due holds are looked for, as a fraction of the same time. */
const LOOKED_EVERY = 1 / 8
/** After this fraction of its time, a hold may have ended. */
const LATE_AFTER = 7 / 8
/** Number of holds that are renewed at once: few enough that requests do not have to wait for them. */
const BATCH = 64

/** The holds of all requests in flight in this worker. They are renewed until they are released. */
export class OpenHolds {
  readonly #parts: HoldParts
  /** One list for each duration, so that the holds that are due are at the front of their list. */
  readonly #lists = new Map<number, HoldList>()

  constructor(parts: HoldParts) {
    this.#parts = parts
  }

  /** Keeps the holds of one request until it is over. */
  keep(charges: readonly ReservedCharge[]): HeldRequest {
    return new HeldRequest(charges.map((charge) => new Hold(charge, this.#parts, this.#listFor(holdMs(charge)))))
  }

  /** Renews the holds that are due. Resolves when that is done. */
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

/** The holds of one request. A request can end in several ways, and the first end releases them. */
export class HeldRequest {
  readonly #holds: readonly Hold[]

  constructor(holds: readonly Hold[]) {
    this.#holds = holds
  }

  release(): void {
    for (const hold of this.#holds) hold.release()
  }
}

/** Open holds of the same duration, the one that was renewed longest ago first. They share one timer, which runs only while there are any. */
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

  /** Returns the next holds that are due, and moves them to the end of the list. */
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

/** The hold of one rule. */
class Hold {
  renewedMs = 0
  /** The last renewal may have come after the hold had ended; then it was taken again. */
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

  /** Never rejects: a renewal that fails is retried when the hold is due again. */
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
    // A pending renewal changes what has to be released, so it releases the hold when it is done.
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
