import { randomBytes } from 'node:crypto'
import type { Logger } from 'pino'
import { type KeyMemory, newKeyMemory } from '../callers/keys/key-memory.ts'
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
import type { WorkerSlots } from './threads/worker-host.ts'

/** The memory that all threads share, with the counters of the last run if a state file kept them. */
export interface OpenState {
  readonly memory: SharedMemory
  /** The main thread's view of the counters in that memory. */
  readonly table: SharedTable
  /** The main thread's lane of the metrics. */
  readonly metrics: MetricMemory
  /** The state file and its lock; undefined if EDGE_STATE_FILE is not set. */
  readonly kept: Counters['kept']
  /** Overrides as payloads of the state file. */
  readonly savedOverrides: readonly Buffer[]
  readonly limitWatch: LimitWatch
  /** Releases the state file without saving it, after a failed start. */
  abandon(): Promise<void>
}

/** Throws if the state file cannot be used or the table is too large for this machine. */
export async function openState({ config, clock, logger }: StartContext): Promise<OpenState> {
  const counters = await openCounters(config.storeBytes, config.stateFile, clock, logger)
  const { buffer, hashKey, table, kept } = counters
  const memory = newSharedMemory(buffer, hashKey, config.workers, openReservations(config, counters, clock, logger), openKeyMemory(config))
  const metrics = new MetricMemory(memory.metrics, SUPERVISOR)
  new CounterFamily(metrics, 'process_start_time_seconds').series().count = Math.round(clock.wallMs() / 1000 - process.uptime())
  const limitWatch = new LimitWatch(table, metrics, logger)
  const abandon = async (): Promise<void> => {
    limitWatch.stop()
    await kept?.lock.release()
  }
  return { memory, table, metrics, kept, savedOverrides: counters.overrides, limitWatch, abandon }
}

/** Without an admin token, a file and a fleet there can be no keys, so that no memory is set aside for them. */
function openKeyMemory({ adminToken, keysFile, redis, maxKeys }: ServerConfig): KeyMemory {
  return newKeyMemory(adminToken === undefined && keysFile === undefined && redis === undefined ? 1 : maxKeys)
}

/** Creates what saves the state while the service runs, from `start` on; undefined without a state file. Its code is loaded while the workers load theirs. */
export async function openStateKeeper(
  { config, logger, clock }: StartContext,
  { kept, metrics }: OpenState,
  slots: WorkerSlots,
): Promise<StateKeeper | undefined> {
  if (kept === undefined) return undefined
  // In decision_service, gateways settle, before a crash or after it.
  if (config.mode === 'reverse_proxy') kept.file.saveOpenAmounts((beforeMs) => slots.ask('open_amounts', { beforeMs }))
  const { StateKeeper } = await import('../control/state-keeper.ts')
  return new StateKeeper({ ...kept, metrics, logger, clock })
}

interface Counters {
  readonly buffer: SharedArrayBuffer
  readonly hashKey: readonly [number, number]
  readonly table: SharedTable
  /** The state file, which keeps the counters over a restart, and its lock. */
  readonly kept: { readonly file: StateFile; readonly lock: StateLock } | undefined
  /** The saved reservation data. */
  readonly reservations: SavedReservations | undefined
  /** Payloads of the saved override sections. */
  readonly overrides: readonly Buffer[]
}

/** Creates the table that all threads share, and restores what was saved of it. Throws if the state file cannot be used. */
async function openCounters(bytes: number, statePath: string | undefined, clock: Clock, logger: Logger): Promise<Counters> {
  const buffer = newTableBuffer(bytes)
  const table = new SharedTable(buffer, ownerNumber(SUPERVISOR))
  if (statePath === undefined) return { buffer, table, hashKey: newHashKey(), kept: undefined, reservations: undefined, overrides: [] }
  // A start without a state file is spared these twenty modules.
  const { openStateFile } = await import('./open-state-file.ts')
  const { lock, file, ...saved } = await openStateFile(statePath, { table, hashKey: newHashKey() }, clock, logger)
  return { buffer, table, ...saved, kept: { lock, file } }
}

function newHashKey(): [number, number] {
  const key = randomBytes(8)
  return [key.readInt32LE(0), key.readInt32LE(4)]
}

/** Creates the threads' shared memory for reservations that gateways settle, restores what was saved, and has it saved with the counters from now on. */
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

/** Looks at a number that only rises, and reports by how much it has risen, at most once a minute. */
class RiseWatch {
  readonly #read: () => number
  readonly #report: (rise: number) => void
  readonly #timer: NodeJS.Timeout
  #reported: number
  #looksSinceReport = MIN_PAUSE_LOOKS

  constructor(read: () => number, report: (rise: number) => void) {
    this.#read = read
    this.#report = report
    this.#reported = read()
    this.#timer = setInterval(() => this.#look(), LOOK_MS).unref()
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  /** Reports what has not been reported yet. */
  reportRest(): void {
    const rise = this.#read() - this.#reported
    if (rise === 0) return
    this.#reported += rise
    this.#looksSinceReport = 0
    this.#report(rise)
  }

  #look(): void {
    if (++this.#looksSinceReport >= MIN_PAUSE_LOOKS) this.reportRest()
  }
}

/** Counts of all threads that mean that limits are not enforced as written. */
class LimitWatch {
  readonly #evictions: RiseWatch
  readonly #addresses: RiseWatch

  constructor(table: SharedTable, metrics: MetricMemory, logger: Logger) {
    this.#evictions = watchEvictions(table, logger)
    this.#addresses = watchAddresses(metrics, logger)
  }

  stop(): void {
    this.#addresses.stop()
    this.#evictions.stop()
    this.#evictions.reportRest()
  }
}

/** Warns when the table is too small for its callers: a counter that is evicted early starts its limit anew, and one that finds no room is not enforced. */
function watchEvictions(table: SharedTable, logger: Logger): RiseWatch {
  return new RiseWatch(
    () => table.forcedEvictions,
    (evicted) => {
      const { slotCount, occupiedSlots } = table
      const what = { event: 'counters_evicted', evicted, slots: slotCount, occupied_slots: occupiedSlots }
      logger.warn(
        what,
        'the counter table is too small for all callers: some limits started again from full or are not enforced; raise EDGE_STORE_SIZE',
      )
    },
  )
}

/** Warns when rules need the client's address and requests come without one. It reads a metric that is counted anyway, and only for such requests. */
function watchAddresses(metrics: MetricMemory, logger: Logger): RiseWatch {
  const missing = new CounterFamily(metrics, 'edge_descriptor_missing_total')
  const read = (): number => {
    for (const { labels, value } of missing.values()) if (labels['key'] === 'ip:address') return value
    return 0
  }
  return new RiseWatch(read, (requests) => {
    logger.warn(
      { event: 'no_address', requests },
      `rules by ip:address did not apply to ${requests === 1 ? 'a request' : `${requests} requests`}, because the address of the client is not known: let the gateway send X-Forwarded-For`,
    )
  })
}
