import { setTimeout as sleep } from 'node:timers/promises'
import { type Logger, pino } from 'pino'
import { FleetKeys } from '../../../src/callers/keys/fleet-keys.ts'
import { IssuedKeys } from '../../../src/callers/keys/issued-keys.ts'
import { KeyControl } from '../../../src/callers/keys/key-control.ts'
import type { LostTail } from '../../../src/callers/keys/key-file-seal.ts'
import { KeyJournal } from '../../../src/callers/keys/key-journal.ts'
import { newKeyMemory } from '../../../src/callers/keys/key-memory.ts'
import { FileKeyStorage } from '../../../src/callers/keys/key-storage.ts'
import { KeyTable } from '../../../src/callers/keys/key-table.ts'
import { parseRedisAddress } from '../../../src/store/redis/link/redis-address.ts'
import { RedisLink } from '../../../src/store/redis/link/redis-link.ts'
import { counterProbe, counterScripts } from '../../../src/store/redis/scripts.ts'

const POLL_MS = 20

export interface KeyInstanceOptions {
  readonly path?: string | undefined
  readonly redis?: string | undefined
  readonly prefix?: string
  readonly maxKeys?: number
  readonly wallMs?: () => number
  readonly logger?: Logger
}

/** The issued keys as one instance has them: the main thread's owner and a worker's view, on a real file and a real Redis. */
export class KeyInstance {
  readonly control: KeyControl
  readonly worker: IssuedKeys
  readonly table: KeyTable
  /** What its file was found to lack when it started. */
  readonly lost: LostTail | undefined
  readonly #link: RedisLink | undefined
  readonly #stopped: AbortController

  private constructor(
    parts: Pick<KeyInstance, 'control' | 'worker' | 'table' | 'lost'>,
    link: RedisLink | undefined,
    stopped: AbortController,
  ) {
    this.control = parts.control
    this.worker = parts.worker
    this.table = parts.table
    this.lost = parts.lost
    this.#link = link
    this.#stopped = stopped
  }

  static async start(options: KeyInstanceOptions): Promise<KeyInstance> {
    const { path, redis, prefix = 'edge:', maxKeys = 1000, wallMs = () => Date.now(), logger = pino({ level: 'silent' }) } = options
    const memory = newKeyMemory(maxKeys)
    const table = new KeyTable(memory)
    let syncedMs: number | undefined
    const journal =
      path === undefined
        ? undefined
        : await KeyJournal.open(path, {
            expect: (keys) => table.reserve(keys),
            note: (key) => void (table.accepts(key) && table.put(key)),
            noteRevoked: (id) => void table.noteRevoked(id),
            noteSynced: (ms) => {
              syncedMs = ms
            },
          })
    const link = redis === undefined ? undefined : linkTo(redis, prefix)
    const control = new KeyControl({ table, logger, wallMs })
    const stopped = new AbortController()
    await control.start(
      link === undefined
        ? new FileKeyStorage(table, journal, wallMs)
        : new FleetKeys({ link, prefix, table, logger, wallMs, journal, syncedMs, repeat: (poll) => void repeat(poll, stopped.signal) }),
    )
    return new KeyInstance({ control, worker: new IssuedKeys(memory), table, lost: journal?.lost }, link, stopped)
  }

  /** What this instance knows, as lines that can be compared. */
  lines(): string[] {
    const known = [...this.table.keys()]
    return known.map(({ id, labels, isRevoked, expiresMs }) => JSON.stringify([id, labels, isRevoked, expiresMs])).sort()
  }

  async stop(): Promise<void> {
    this.#stopped.abort()
    await this.control.close()
    await this.#link?.close()
  }
}

async function repeat(poll: () => Promise<void>, stopped: AbortSignal): Promise<void> {
  while (!stopped.aborted) {
    await sleep(POLL_MS)
    await poll()
  }
}

function linkTo(redis: string, prefix: string): RedisLink {
  const { buckets } = counterScripts()
  return new RedisLink({
    address: parseRedisAddress(redis),
    prefix,
    timeoutMs: 60_000,
    probe: (key) => counterProbe(buckets, key),
    listener: { onNode() {}, onRoundTrip() {}, onError() {}, onCircuit() {} },
  })
}
