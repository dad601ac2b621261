import type { Logger } from 'pino'
import type { SharedTable } from '../store/shared-table.ts'

const LOOK_MS = 5000
const MIN_PAUSE_LOOKS = 12

/** Says so when the table is too small for its callers: each counter that is evicted early is a limit that starts anew, and each that finds no room one that is not enforced. */
export class EvictionWatch {
  readonly #table: SharedTable
  readonly #logger: Logger
  readonly #timer: NodeJS.Timeout
  #reported: number
  #looksSinceReport = MIN_PAUSE_LOOKS

  constructor(table: SharedTable, logger: Logger) {
    this.#table = table
    this.#logger = logger
    this.#reported = table.forcedEvictions
    this.#timer = setInterval(() => this.#look(), LOOK_MS).unref()
  }

  stop(): void {
    clearInterval(this.#timer)
    this.#report()
  }

  /** At most once a minute. */
  #look(): void {
    if (++this.#looksSinceReport >= MIN_PAUSE_LOOKS) this.#report()
  }

  #report(): void {
    const evicted = this.#table.forcedEvictions - this.#reported
    if (evicted === 0) return
    this.#reported += evicted
    this.#looksSinceReport = 0
    const { slotCount, occupiedSlots } = this.#table
    const what = { event: 'counters_evicted', evicted, slots: slotCount, occupied_slots: occupiedSlots }
    this.#logger.warn(
      what,
      'there are more callers than the table has room for: some limits started anew, or are not enforced; raise EDGE_STORE_SIZE',
    )
  }
}
