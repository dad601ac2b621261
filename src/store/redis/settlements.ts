import type { ReturnRow } from './counter-rows.ts'
import { type DoubtListener, isInDoubt } from './doubt.ts'
import { inBatches } from './in-batches.ts'
import type { LinkError } from './link/link-error.ts'
import type { CounterLink, ScriptCalls } from './script-calls.ts'
import { groupsOf, type RowGroup } from './slot-groups.ts'
import { UnsentSettlements } from './unsent-settlements.ts'

interface Settlement extends RowGroup<ReturnRow> {
  /** How often Redis has replied with an error. */
  refusals: number
}

const MAX_REFUSALS = 10

/** Corrects counters in Redis by what was really used. What is known not to have been sent is kept, and sent later. */
export class Settlements {
  readonly #link: CounterLink
  readonly #calls: ScriptCalls
  readonly #listener: DoubtListener
  readonly #unsent: UnsentSettlements<Settlement>

  constructor(link: CounterLink, calls: ScriptCalls, listener: DoubtListener) {
    this.#link = link
    this.#calls = calls
    this.#listener = listener
    this.#unsent = new UnsentSettlements(() => listener.onDoubt('settlement'))
  }

  /** Done when Redis has it, when it is kept for later, or when nobody can tell. Never rejects. */
  async settle(rows: readonly ReturnRow[]): Promise<void> {
    await Promise.all(groupsOf(this.#link, rows).map((group) => this.#settle({ ...group, refusals: 0 })))
  }

  /** Sends what could not be sent before. */
  async sendUnsent(): Promise<void> {
    await inBatches(this.#unsent.takeAll(), (settlement) => this.#settle(settlement))
  }

  async #settle(settlement: Settlement): Promise<void> {
    if (!this.#link.isUsable(settlement.number)) return this.#unsent.add(settlement)
    try {
      await this.#calls.giveBack('settle', settlement.rows)
    } catch (error) {
      if (isInDoubt(error) || isRefused(error, settlement)) this.#listener.onDoubt('settlement')
      else this.#unsent.add(settlement)
    }
  }
}

/** Counts a refusal. Returns whether there were so many that trying once more is of no use. */
function isRefused(error: unknown, settlement: Settlement): boolean {
  if ((error as LinkError).outcome === 'refused') settlement.refusals++
  return settlement.refusals >= MAX_REFUSALS
}
