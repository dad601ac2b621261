import { KeyControl } from '../callers/keys/key-control.ts'
import type { KeyJournal } from '../callers/keys/key-journal.ts'
import { FileKeyStorage, type KeyStorage } from '../callers/keys/key-storage.ts'
import { KeyTable } from '../callers/keys/key-table.ts'
import type { FleetControl } from '../control/fleet-control.ts'
import type { OpenReports } from './open-reports.ts'
import type { OpenState } from './open-state.ts'
import type { StartContext } from './start-context.ts'
import type { WorkerSlots } from './threads/worker-host.ts'

/** The issued keys while the service runs. */
export interface OpenKeys {
  readonly control: KeyControl
  /** Starts to follow the fleet, if there is one. Resolves when the keys from before the start are known, or when waiting any longer makes no sense. */
  start(fleet: FleetControl | undefined): Promise<void>
  close(): Promise<void>
}

/** Reads the file of keys, if there is one. Throws a KeyFileFault if it cannot be used. */
export async function openKeys(
  context: StartContext,
  { memory }: OpenState,
  { events }: OpenReports,
  slots: WorkerSlots,
): Promise<OpenKeys> {
  const { config, clock, logger } = context
  const wallMs = (): number => clock.wallMs()
  const table = new KeyTable(memory.keys)
  const { journal, syncedMs } = config.keysFile === undefined ? NO_JOURNAL : await openJournal(config.keysFile, table, context)
  const endRequests = async (ids: readonly string[]): Promise<number> =>
    (await slots.ask('end_key_requests', ids)).reduce((sum, count) => sum + count, 0)
  const control = new KeyControl({ table, logger, wallMs, endRequests, note: (note) => events?.history?.changes.noteKey(note) })
  const newStorage = async (fleet: FleetControl | undefined): Promise<KeyStorage> => {
    if (fleet === undefined) return new FileKeyStorage(table, journal, wallMs)
    const { FleetKeys } = await import('../callers/keys/fleet-keys.ts')
    return new FleetKeys({
      link: fleet.link,
      prefix: config.redisPrefix,
      table,
      logger,
      wallMs,
      journal,
      syncedMs,
      onRevoked: (ids) => void endRequests(ids),
      repeat: (poll) => fleet.follow(poll),
    })
  }
  let isStarted = false
  return {
    control,
    start: async (fleet) => {
      const storage = await newStorage(fleet)
      isStarted = true
      await control.start(storage)
    },
    close: () => (isStarted || journal === undefined ? control.close() : journal.close()),
  }
}

const NO_JOURNAL = { journal: undefined, syncedMs: undefined }

interface ReadKeys {
  readonly journal: KeyJournal
  readonly syncedMs: number | undefined
}

async function openJournal(path: string, table: KeyTable, { config, logger }: StartContext): Promise<ReadKeys> {
  const { KeyFileFault, KeyJournal } = await import('../callers/keys/key-journal.ts')
  let syncedMs: number | undefined
  const journal = await KeyJournal.open(path, {
    expect: (keys) => table.reserve(keys),
    note: (key) => {
      if (table.accepts(key) && !table.put(key))
        throw new KeyFileFault(
          `${path} has more keys, or longer labels and reasons, than EDGE_MAX_KEYS (${config.maxKeys}) allows: raise EDGE_MAX_KEYS`,
        )
    },
    noteRevoked: (id) => void table.noteRevoked(id),
    noteSynced: (wallMs) => {
      syncedMs = wallMs
    },
  })
  const { lost } = journal
  if (lost !== undefined) {
    const reason = lost.bytes === 0 ? `${journal.path} is empty` : `${journal.path} lacks ${lost.bytes} bytes (${lost.lines} lines)`
    logger.error({ event: 'keys_tail_dropped', path: journal.path, ...lost, reason }, LOST)
  }
  if (journal.isOutdated) await journal.rewrite({ size: table.size, revoked: table.revoked, keys: () => table.keys(), syncedMs })
  if (table.size > 0) logger.info({ event: 'keys_loaded', path: journal.path, keys: table.size }, 'issued keys were read from their file')
  return { journal, syncedMs }
}

const LOST =
  'the end of the file of keys is gone: issued keys and revocations may be missing. Compare edge keys list with what should be there, then edge keys acknowledge'
