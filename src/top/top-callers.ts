import type { ActivePlan } from '../engine/active-plan.ts'
import type { CallerDigest } from '../engine/decide-options.ts'
import type { Group } from '../engine/decision.ts'
import type { OpenReservations } from '../engine/open-reservations.ts'
import type { CallerWatch } from '../engine/watchers.ts'
import type { Plan, PlanRule } from '../policy/plan.ts'
import type { CounterStore } from '../store/counter-store.ts'
import { CallerIds } from './caller-ids.ts'
import { type NearCaller, NearCallers } from './near-callers.ts'
import { periodAt, RejectedCallers, type RejectedPeriod } from './rejected-callers.ts'
import type { TopFilter } from './top-filter.ts'

export interface TopCallersParts {
  readonly store: Pick<CounterStore, 'locatorsOf' | 'checkAll'>
  /** Shared by all threads. */
  readonly hashKey: readonly [number, number]
  /** Digests credentials. */
  readonly callerDigest: CallerDigest
  /** Set if this process knows what requests in flight have reserved. */
  readonly openReservations?: Pick<OpenReservations, 'cellsOf' | 'sumAt'> | undefined
}

/** The callers of one thread that are rejected most, and those nearest to a limit. */
export interface TopReport {
  /** Number of the current period. */
  readonly period: number
  readonly rejected: readonly RejectedPeriod[]
  readonly nearest: readonly NearCaller[]
}

/** Watches the callers of one thread, in memory of a fixed size. */
export class TopCallers implements CallerWatch {
  readonly #rejected: RejectedCallers
  readonly #near: NearCallers

  constructor({ store, hashKey, callerDigest, openReservations }: TopCallersParts) {
    const ids = new CallerIds(hashKey)
    this.#rejected = new RejectedCallers(ids, callerDigest)
    this.#near = new NearCallers(store, ids, callerDigest, openReservations)
  }

  onReject(rule: PlanRule, values: readonly string[], from: number, nowMs: number): void {
    this.#rejected.add(rule, values, from, nowMs)
  }

  onLevels(group: Group, plan: Plan, nowMs: number): void {
    this.#near.note(group, plan, nowMs)
  }

  /** Reports rejects unfiltered, and the callers nearest to a limit that match the filter: none if the store takes longer than `timeout`. */
  async report(
    filter: TopFilter,
    active: ActivePlan | undefined,
    nowMs: number,
    wallMs: number,
    timeout: Promise<unknown>,
  ): Promise<TopReport> {
    const rejected = this.#rejected.read(nowMs)
    const nearest = await Promise.race([this.#near.look(filter, active, nowMs, wallMs), timeout.then(() => [])])
    return { period: periodAt(nowMs), rejected, nearest }
  }

  /** Forgets old entries even if no requests or reports come any more. */
  sweep(nowMs: number): void {
    this.#rejected.turnTo(nowMs)
    this.#near.sweep(nowMs)
  }
}
