import { randomBytes } from 'node:crypto'
import type { Logger } from 'pino'
import type { ServerConfig } from '../config/config.ts'
import type { StateKeeper } from '../control/state-keeper.ts'
import {
  newReservationMemory,
  type ReservationMemory,
  type SavedReservations,
  savedReservations,
} from '../reservations/reservation-numbers.ts'
import type { StateFile } from '../store/state/state-file.ts'
import { RESERVATION_IDENTITY, SETTLED_RESERVATIONS } from '../store/state/state-format.ts'
import type { StateLock } from '../store/state/state-lock.ts'
import { SharedTable } from '../store/table/shared-table.ts'
import { newTableBuffer } from '../store/table/table-layout.ts'
import { CounterFamily } from '../telemetry/metrics/metric-families.ts'
import { MetricMemory } from '../telemetry/metrics/metric-memory.ts'
import type { Clock } from '../time/clock.ts'
import { newSharedMemory, ownerNumber, type SharedMemory, SUPERVISOR } from './shared-memory.ts'
import type { StartContext } from './start-context.ts'

/** The memory that all threads share, filled with what the state file kept of the last run. */
export interface OpenState {
  readonly memory: SharedMemory
  /** The main thread's view of the counters in that memory. */
  readonly table: SharedTable
  /** The main thread's lane of the metrics. */
  readonly metrics: MetricMemory
  /** The state file and its lock; undefined where EDGE_STATE_FILE is not set. */
  readonly kept: Counters['kept']
  /** Overrides as the state file has them. */
  readonly savedOverrides: readonly Buffer[]
  readonly evictionWatch: EvictionWatch
  /** Lets go of the state file without saving, when the start fails. */
  abandon(): Promise<void>
}

/** Throws where the state file cannot be used, or the table is too large for this machine. */
export async function openState({ config, clock, logger }: StartContext): Promise<OpenState> {
  const counters = await openCounters(config.storeBytes, config.stateFile, clock, logger)
  const { buffer, hashKey, table, kept } = counters
  const memory = newSharedMemory(buffer, hashKey, config.workers, openReservations(config, counters, clock, logger))
  const metrics = new MetricMemory(memory.metrics, SUPERVISOR)
  new CounterFamily(metrics, 'process_start_time_seconds').series().count = Math.round(clock.wallMs() / 1000 - process.uptime())
  const evictionWatch = new EvictionWatch(table, logger)
  const abandon = async (): Promise<void> => {
    evictionWatch.stop()
    await kept?.lock.release()
  }
  return { memory, table, metrics, kept, savedOverrides: counters.overrides, evictionWatch, abandon }
}

/** Saves the state while the service runs, from `start` on. Undefined where there is no state file. Its code is loaded while the workers load theirs. */
export async function openStateKeeper({ logger, clock }: StartContext, { kept, metrics }: OpenState): Promise<StateKeeper | undefined> {
  if (kept === undefined) return undefined
  const { StateKeeper } = await import('../control/state-keeper.ts')
  return new StateKeeper({ ...kept, metrics, logger, clock })
}

interface Counters {
  readonly buffer: SharedArrayBuffer
  readonly hashKey: readonly [number, number]
  readonly table: SharedTable
  /** Where they are kept over a restart, and the right to do so. */
  readonly kept: { readonly file: StateFile; readonly lock: StateLock } | undefined
  /** What was saved of reservations. */
  readonly reservations: SavedReservations | undefined
  /** Payloads of what was saved of overrides. */
  readonly overrides: readonly Buffer[]
}

/** The table that all threads share, with what was saved of it last time. Throws where the state file cannot be used. */
async function openCounters(bytes: number, statePath: string | undefined, clock: Clock, logger: Logger): Promise<Counters> {
  const buffer = newTableBuffer(bytes)
  const table = new SharedTable(buffer, ownerNumber(SUPERVISOR))
  if (statePath === undefined) return { buffer, table, hashKey: newHashKey(), kept: undefined, reservations: undefined, overrides: [] }
  // Twenty modules that a start without a state file does not wait for.
  const { openStateFile } = await import('./open-state-file.ts')
  const { lock, file, ...saved } = await openStateFile(statePath, { table, hashKey: newHashKey() }, clock, logger)
  return { buffer, table, ...saved, kept: { lock, file } }
}

function newHashKey(): [number, number] {
  const key = randomBytes(8)
  return [key.readInt32LE(0), key.readInt32LE(4)]
}

/** What the threads share of reservations that gateways settle, with what was saved of them. From now on it is saved with the counters. */
function openReservations(config: ServerConfig, { reservations: saved, kept }: Counters, clock: Clock, logger: Logger): ReservationMemory {
  const isDecisionService = config.mode === 'decision_service'
  const memory = newReservationMemory({
    workers: isDecisionService ? config.workers : 0,
    secret: config.reservationSecret,
    saved,
    wallMs: clock.wallMs(),
  })
  kept?.file.saveWith(({ wallMs }) => sectionsOf(memory, wallMs))
  if (isDecisionService && config.redis !== undefined && config.reservationSecret === undefined) {
    logger.info(
      { event: 'reservations_not_shared' },
      'reservations can be settled only at the instance that issued them; set EDGE_RESERVATION_SECRET to the same value on all instances',
    )
  }
  return memory
}

function* sectionsOf(memory: ReservationMemory, savedMs: number): Generator<readonly [number, Buffer]> {
  const { identity, blocks } = savedReservations(memory, savedMs)
  yield [RESERVATION_IDENTITY, identity!]
  for (const block of blocks) yield [SETTLED_RESERVATIONS, block]
}

const LOOK_MS = 5000
const MIN_PAUSE_LOOKS = 12

/** Says so when the table is too small for its callers: each counter that is evicted early is a limit that starts anew, and each that finds no room one that is not enforced. */
class EvictionWatch {
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
