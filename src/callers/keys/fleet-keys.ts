import type { Logger } from 'pino'
import { ApiError } from '../../admin/api/api-error.ts'
import { newEpoch } from '../../store/redis/control-script.ts'
import {
  KEYS_PER_CALL,
  type KeyNews,
  KeyScript,
  type KeyStorePut,
  keySum,
  type StoredKey,
  type StoredOutcome,
} from '../../store/redis/key-script.ts'
import { LinkError } from '../../store/redis/link/call.ts'
import type { RedisLink } from '../../store/redis/link/redis-link.ts'
import { inSlices } from '../../time/slices.ts'
import { decodeKey, encodeKey, type IssuedKey, KEPT_MS, keyForgetMs } from './issued-key.ts'
import { KeyCopy } from './key-copy.ts'
import type { KeyJournal, LiveKeys } from './key-journal.ts'
import type { KeyPut, KeyStorage, PutOutcome } from './key-storage.ts'
import type { KeyTable } from './key-table.ts'

export interface FleetKeysParts {
  readonly link: Pick<RedisLink, 'run' | 'firstUse'>
  /** Prefix of all keys in Redis. */
  readonly prefix: string
  readonly table: KeyTable
  readonly logger: Logger
  readonly wallMs: () => number
  /** The copy for a start without Redis, which was read into the table; undefined if EDGE_KEYS_FILE is not set. */
  readonly journal: KeyJournal | undefined
  /** When the copy was last known to be complete; undefined if it never was. */
  readonly syncedMs: number | undefined
  /** Called when these keys were revoked elsewhere, unless their requests are to go on. */
  readonly onRevoked?: ((ids: readonly string[]) => void) | undefined
  /** Has Redis polled again and again. Another instance's change is known here after the next poll. */
  readonly repeat: (poll: () => Promise<void>) => void
}

/** How long the start waits for Redis. */
const FIRST_USE_MS = 2000
/** Changes of this instance that are written back first if Redis seems to have lost something, so that these at least are back at once. */
const MAX_RECENT = 1000
/** Pauses between two comparisons of everything, which a million keys make long, while they do not help. */
const FIRST_PAUSE_MS = 1000
const LONGEST_PAUSE_MS = 300_000
/** How often the journal is told that it is complete. */
const SYNCED_INTERVAL_MS = 3_600_000

/**
 * The keys that a fleet shares. Redis has all of them, and every instance has a copy that it follows. A change is confirmed once Redis has it, and it is then in
 * the journal of this instance too, if there is one. Redis may lose it nevertheless when it fails over to a replica that lacked it; therefore all instances
 * compare the sum of what they know with that of Redis, with every poll, and write back what it lacks. A confirmed change is lost only if Redis loses it and, within
 * a second, every instance that knew it ends without a journal.
 */
export class FleetKeys implements KeyStorage {
  readonly isDurable = true
  readonly #parts: FleetKeysParts
  readonly #script: KeyScript
  /** The last changes that were made here, the oldest first. */
  readonly #recent = new Map<string, IssuedKey>()
  #epoch = newEpoch()
  #lastChange = '0'
  #sum = 0
  readonly #copy: KeyCopy | undefined
  /** The last changes that were made here. They come into the table after the file. */
  #stored: readonly IssuedKey[] = []
  #syncedMs: number | undefined
  #savedSyncedMs = 0
  #isClosed = false
  #polling: Promise<void> | undefined
  #comparedMs = Number.NEGATIVE_INFINITY
  #pauseMs = FIRST_PAUSE_MS
  #refusal: string | undefined
  #unreadable = 0

  constructor(parts: FleetKeysParts) {
    this.#parts = parts
    this.#script = new KeyScript(parts.link, parts.prefix, KEPT_MS)
    this.#syncedMs = parts.syncedMs
    const { journal, logger } = parts
    this.#copy = journal && new KeyCopy({ journal, live: this.#liveKeys(), logger })
  }

  async start(): Promise<void> {
    const { table, link, repeat } = this.#parts
    await inSlices(
      table.watch((id, momentMs, sign) => {
        this.#sum = keySum(this.#sum, id, micros(momentMs), sign)
      }),
    )
    // A copy in the file is good enough to begin with. Without one, nothing is known until Redis has told all.
    if (this.#syncedMs !== undefined || table.size > 0) table.noteLoaded()
    await link.firstUse(FIRST_USE_MS)
    await this.#poll()
    repeat(() => this.#poll())
  }

  async store(puts: readonly KeyPut[]): Promise<readonly PutOutcome[]> {
    const outcomes = (await this.#send(puts.map(storePut))).map((outcome) => (typeof outcome === 'number' ? outcome / 1000 : outcome))
    const stored: IssuedKey[] = []
    for (const [i, { key }] of puts.entries()) {
      const momentMs = outcomes[i]!
      if (typeof momentMs !== 'number') continue
      stored.push({ ...key, momentMs })
      this.#noteRecent({ ...key, momentMs })
      if (key.isRevoked) this.#parts.table.revoked.add(key.id)
    }
    this.#stored = stored
    await this.#copy?.save(stored)
    return outcomes
  }

  isSlow(): boolean {
    return this.#copy?.isSlow() ?? false
  }

  async acknowledgeLoss(): Promise<void> {
    await this.#parts.journal?.acknowledgeLoss()
  }

  /** The file is only a copy. */
  problem(): undefined {
    return undefined
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await this.#polling
    await this.#copy?.close()
  }

  /** Never rejects. If a poll is under way, there is no other one. */
  #poll(): Promise<void> {
    if (!this.#isClosed) this.#polling ??= this.#tryToFollow()
    return this.#polling ?? Promise.resolve()
  }

  async #tryToFollow(): Promise<void> {
    try {
      await this.#follow()
    } catch (error) {
      this.#noteFailure(error)
    } finally {
      this.#polling = undefined
    }
  }

  /** Reads what has changed, and compares the sums once there is no more to read. */
  async #follow(): Promise<void> {
    let pulled = await this.#pull()
    if (!pulled.isSame) {
      await this.#script.add(this.#epoch, this.#parts.table.maxKeys, [...this.#recent.values()].slice(-KEYS_PER_CALL).map(storedOf))
      pulled = await this.#pull()
    }
    if (!(pulled.isSame && pulled.knowsRevoked) && performance.now() >= this.#comparedMs + this.#pauseMs) {
      if (!pulled.knowsRevoked) await this.#compareRevoked()
      if (!pulled.isSame) await this.#compareAll(pulled.size)
      pulled = await this.#pull()
      this.#comparedMs = performance.now()
      this.#pauseMs = pulled.isSame && pulled.knowsRevoked ? FIRST_PAUSE_MS : Math.min(LONGEST_PAUSE_MS, this.#pauseMs * 2)
    }
    this.#noteShared()
    this.#parts.table.noteLoaded()
    await this.#noteSynced()
  }

  /** Reads all changes after the last known one. Returns how many keys Redis has, whether they are the same as here, and whether those that were ever revoked are. */
  async #pull(): Promise<{ readonly size: number; readonly isSame: boolean; readonly knowsRevoked: boolean }> {
    for (;;) {
      const news = await this.#script.poll(this.#epoch, this.#lastChange)
      this.#epoch = news.epoch
      this.#lastChange = news.lastChange
      this.#parts.table.reserve(news.size)
      const { fresh, wrong } = this.#merge(news)
      // What this instance changes meanwhile is in no reply yet, so nothing may be waited for before this comparison.
      const isSame = news.size === this.#parts.table.size && news.sum === this.#sum
      const knowsRevoked = this.#knowsRevoked(news)
      await this.#copy?.save(fresh)
      await this.#script.keepRevoked(this.#epoch, wrong)
      if (news.keys.length + news.unreadable < KEYS_PER_CALL || this.#isClosed) return { size: news.size, isSame, knowsRevoked }
    }
  }

  #knowsRevoked({ revoked }: KeyNews): boolean {
    const known = this.#parts.table.revoked
    return revoked.size === known.size && revoked.sum === known.sum
  }

  /** Returns the keys that were not known here, and the ids of those that are valid in Redis although they were revoked: an earlier build does not know that. */
  #merge({ keys, unreadable }: KeyNews): { readonly fresh: IssuedKey[]; readonly wrong: string[] } {
    const { table } = this.#parts
    const fresh: IssuedKey[] = []
    const wrong: string[] = []
    const revoked: string[] = []
    let unknown = unreadable
    for (const stored of keys) {
      const former = table.get(stored.id)
      const key = keyOf(stored)
      // A key that ended is forgotten. One that was imported again since then is later.
      if (stored.text === undefined && former !== undefined && micros(former.momentMs) <= stored.moment) this.#forget(former)
      if (key?.isRevoked === false && table.revoked.has(key.id)) wrong.push(key.id)
      if (stored.text === undefined || (key !== undefined && !table.accepts(key))) continue
      if (key !== undefined && table.put(key)) {
        fresh.push(key)
        // A revocation that was asked for here has ended them, and knows how many.
        const isOwn = this.#recent.get(key.id)?.isRevoked === true
        if (key.isRevoked && former?.isRevoked === false && !isOwn && key.edit?.streams !== 'kept') revoked.push(key.id)
      } else unknown++
    }
    if (unknown > 0) this.#noteUnreadable(unknown)
    if (revoked.length > 0) this.#parts.onRevoked?.(revoked)
    return { fresh, wrong }
  }

  /** Tells Redis and this instance what either lacks of the keys that were ever revoked. */
  async #compareRevoked(): Promise<void> {
    const { table } = this.#parts
    const lacking = new Set(table.revoked.ids())
    let hasNews = false
    let page: readonly string[]
    let after: string | undefined
    do {
      page = await this.#script.revoked(this.#epoch, after)
      for (const id of page) {
        if (!lacking.delete(id) && table.noteRevoked(id)) hasNews = true
      }
      after = page.at(-1)
    } while (page.length === KEYS_PER_CALL && !this.#isClosed)
    if (hasNews) await this.#copy?.saveAll()
    const ids = [...lacking]
    for (let i = 0; i < ids.length && !this.#isClosed; i += KEYS_PER_CALL)
      await this.#script.keepRevoked(this.#epoch, ids.slice(i, i + KEYS_PER_CALL))
  }

  /** Reads everything, and writes back what Redis lacks, because it was flushed or has failed over, or this instance was away. */
  async #compareAll(size: number): Promise<void> {
    const { table, wallMs } = this.#parts
    this.#lastChange = '0'
    await this.#pull()
    // Redis remembers for a while which keys were forgotten. After a longer absence, nobody can tell a lost key from a revoked one.
    const isStale = size > 0 && this.#syncedMs !== undefined && this.#syncedMs < wallMs() - KEPT_MS
    let after: string | undefined
    do {
      const page = table.page({}, after, KEYS_PER_CALL, KEYS_PER_CALL)
      after = page.next
      const wanted = new Set(page.keys.length === 0 ? [] : await this.#script.offer(this.#epoch, page.keys.map(storedOf)))
      const lacking = page.keys.filter(({ id }) => wanted.has(id))
      if (isStale) for (const key of lacking) this.#forget(key)
      else await this.#script.add(this.#epoch, table.maxKeys, lacking.map(storedOf))
    } while (after !== undefined && !this.#isClosed)
  }

  #forget(key: IssuedKey): void {
    this.#parts.table.forget(key.id)
    this.#recent.delete(key.id)
  }

  #noteRecent(key: IssuedKey): void {
    this.#recent.delete(key.id)
    this.#recent.set(key.id, key)
    const [oldest] = this.#recent.keys()
    if (this.#recent.size > MAX_RECENT) this.#recent.delete(oldest!)
  }

  async #send(puts: readonly KeyStorePut[]): Promise<StoredOutcome[]> {
    const outcomes: StoredOutcome[] = []
    try {
      for (let i = 0; i < puts.length; i += KEYS_PER_CALL) {
        outcomes.push(...(await this.#script.put(this.#epoch, this.#parts.table.maxKeys, puts.slice(i, i + KEYS_PER_CALL))))
      }
      return outcomes
    } catch (error) {
      if (!(error instanceof LinkError)) throw error
      throw new ApiError('store_unavailable', failureText(error))
    }
  }

  #liveKeys(): LiveKeys {
    const [{ table }, stored, syncedMs] = [this.#parts, () => this.#stored, () => this.#syncedMs]
    return {
      get size() {
        return table.size
      },
      revoked: table.revoked,
      *keys() {
        yield* table.keys()
        yield* stored()
      },
      get syncedMs() {
        return syncedMs()
      },
    }
  }

  async #noteSynced(): Promise<void> {
    this.#syncedMs = Math.floor(this.#parts.wallMs())
    this.#copy?.retry()
    if (this.#copy === undefined || this.#syncedMs < this.#savedSyncedMs + SYNCED_INTERVAL_MS) return
    this.#savedSyncedMs = this.#syncedMs
    await this.#copy.saveSynced(this.#syncedMs)
  }

  #noteUnreadable(count: number): void {
    this.#unreadable += count
    if (this.#unreadable > count) return
    this.#parts.logger.error(
      { event: 'keys_unreadable', keys: count },
      'some keys in Redis are unknown to this instance: a newer version of edge wrote them, or EDGE_MAX_KEYS is smaller here than elsewhere',
    )
  }

  #noteShared(): void {
    if (this.#refusal === undefined) return
    this.#refusal = undefined
    this.#parts.logger.info({ event: 'keys_shared' }, 'issued keys are shared with other instances again')
  }

  /** Logs once per reason that keys cannot be followed: revoked ones may be in use here until it is over. */
  #noteFailure(error: unknown): void {
    const reason = error instanceof Error ? error.message : String(error)
    const isUnreachable = error instanceof LinkError && error.outcome !== 'refused'
    // Workers log that Redis is unreachable, and without keys that is all there is to say.
    if (this.#isClosed || reason === this.#refusal || (isUnreachable && this.#parts.table.size === 0)) return
    this.#refusal = reason
    const what = 'changes of keys on other instances do not reach this one: keys that are revoked there are still accepted here'
    this.#parts.logger.error({ event: 'keys_not_shared', reason }, what)
  }
}

function failureText({ outcome, message }: LinkError): string {
  if (outcome !== 'unknown') return `nothing was changed, because Redis did not accept it: ${message}`
  return `it is unknown whether Redis has it: ${message}. List the keys before you try again`
}

function micros(ms: number): number {
  return Math.round(ms * 1000)
}

/** Returns undefined if the key is damaged or was written by a newer program. */
function keyOf({ id, text, moment, isRevoked }: StoredKey): IssuedKey | undefined {
  const key = text === undefined ? undefined : decodeKey(text)
  return key?.id === id ? { ...key, momentMs: moment / 1000, isRevoked } : undefined
}

function storePut({ key, former }: KeyPut): KeyStorePut {
  const { id, expiresMs, isRevoked } = key
  const expires = expiresMs === undefined ? undefined : micros(expiresMs)
  return { id, expected: former && micros(former.momentMs), expires, isRevoked, text: encodeKey(key) }
}

function storedOf(key: IssuedKey): StoredKey {
  const forgetMs = keyForgetMs(key)
  const { id, isRevoked } = key
  return { id, moment: micros(key.momentMs), forget: forgetMs === undefined ? 0 : micros(forgetMs), isRevoked, text: encodeKey(key) }
}
