import type { SharedTable } from '../store/shared-table.ts'
import { CounterFamily } from '../telemetry/metrics/counter-family.ts'
import { MetricMemory } from '../telemetry/metrics/metric-memory.ts'
import { EvictionWatch } from './eviction-watch.ts'
import { type Counters, openCounters } from './open-counters.ts'
import { openReservations } from './open-reservations.ts'
import { newSharedMemory, type SharedMemory, SUPERVISOR } from './shared-memory.ts'
import type { StartContext } from './start-context.ts'
import type { StateKeeper } from './state-keeper.ts'

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
  const { StateKeeper } = await import('./state-keeper.ts')
  return new StateKeeper({ ...kept, metrics, logger, clock })
}
