import type { ReturnRow } from './counter-rows.ts'
import { LinkError } from './link/call.ts'
import { type CounterLink, groupsOf, inBatches, type RowGroup, type ScriptCalls } from './script-calls.ts'
import { warnedPercent } from './script-format.ts'

interface Settlement extends RowGroup<ReturnRow> {
  readonly action: 'settle' | 'refund'
  /** How often Redis replied with an error, or not at all. */
  refusals: number
  /** It may have been done before. Only if it closes records, Redis can tell. */
  isAgain?: boolean
}

const MAX_REFUSALS = 10

/** Corrects counters in Redis to the actual usage. Settlements that are known not to have been done are kept, and sent later. */
export class Settlements {
  readonly #link: CounterLink
  readonly #calls: ScriptCalls
  readonly #listener: SettlementListener
  readonly #unsent: UnsentSettlements<Settlement>

  constructor(link: CounterLink, calls: ScriptCalls, listener: SettlementListener) {
    this.#link = link
    this.#calls = calls
    this.#listener = listener
    this.#unsent = new UnsentSettlements(() => listener.onUnknownOutcome('settlement'))
  }

  /**
   * Resolves when the settlement is done or kept for later, and to false if its outcome is unknown or Redis refused it too often. Never
   * rejects.
   */
  async settle(action: 'settle' | 'refund', rows: readonly ReturnRow[]): Promise<boolean> {
    const groups = await Promise.all(groupsOf(this.#link, rows).map((group) => this.#settle({ ...group, action, refusals: 0 })))
    return groups.every((isKnown) => isKnown)
  }

  /** Sends settlements that could not be sent before. */
  async sendUnsent(): Promise<void> {
    await inBatches(this.#unsent.takeAll(), async (settlement) => void (await this.#settle(settlement)))
  }

  /** Returns false if the outcome is unknown, or if Redis refused it too often. */
  async #settle(settlement: Settlement): Promise<boolean> {
    if (!this.#link.isUsable(settlement.number)) {
      this.#keep(settlement)
      return true
    }
    try {
      const reply = await this.#calls.giveBack(settlement.action, settlement.rows, settlement.isAgain)
      for (const [i, { warning }] of reply.rows.entries()) if (warning > 0) settlement.rows[i]!.onWarning?.(warnedPercent(warning))
      return true
    } catch (error) {
      const isUnknown = isOutcomeUnknown(error)
      settlement.isAgain ||= isUnknown
      const canRepeat = !isUnknown || settlement.rows[0]!.open !== undefined
      if (canRepeat && !isRefused(error, settlement)) {
        this.#keep(settlement)
        return true
      }
      this.#listener.onUnknownOutcome('settlement')
      return false
    }
  }

  #keep(settlement: Settlement): void {
    this.#unsent.add(settlement)
    this.#listener.onUnsent?.()
  }
}

/** Counts a refusal. Returns whether there were too many to try again. */
function isRefused(error: unknown, settlement: Settlement): boolean {
  if ((error as LinkError).outcome !== 'not_sent') settlement.refusals++
  return settlement.refusals >= MAX_REFUSALS
}

/** The most settlements that are kept while Redis is unreachable. */
const CAPACITY = 10_000

/** Settlements that are known not to have been done, so that they can be sent later without being done twice. */
class UnsentSettlements<Settlement> {
  #kept: Settlement[] = []
  readonly #onLost: () => void

  /** `onLost` is called for each settlement that exceeds the capacity. */
  constructor(onLost: () => void) {
    this.#onLost = onLost
  }

  add(settlement: Settlement): void {
    if (this.#kept.length < CAPACITY) this.#kept.push(settlement)
    else this.#onLost()
  }

  takeAll(): readonly Settlement[] {
    const kept = this.#kept
    this.#kept = []
    return kept
  }
}

export interface UnknownOutcomeListener {
  /** Called when a call may or may not have been done. It is not sent again. */
  onUnknownOutcome(what: 'take' | 'give_back' | 'settlement' | 'renewal' | 'lease'): void
}

export interface SettlementListener extends UnknownOutcomeListener {
  /** Called when a settlement is kept, for whoever calls `sendUnsent` only when there is something to send. */
  readonly onUnsent?: () => void
}

/** Returns whether a call that failed may have been done. */
export function isOutcomeUnknown(error: unknown): boolean {
  return !(error instanceof LinkError) || error.outcome === 'unknown'
}
