import type { Logger } from 'pino'
import { ApiError } from '../../admin/api/api-error.ts'
import { show } from '../../text/problem.ts'
import { type IssuedKey, type KeyEdit, type KeyLabels, keyDigest, keyIdOf, newKeyText } from './issued-key.ts'
import { SPARE_RECORDS } from './key-memory.ts'
import type { KeyStorage, PutOutcome } from './key-storage.ts'
import type { KeyTable, PreparedKey } from './key-table.ts'

/** When a key ends: a time, a time from now, or never. */
export type KeyEnd = { readonly atMs: number } | { readonly inMs: number } | 'never'

export interface Author {
  readonly actor: string
  readonly reason: string
}

export interface CreateOrder extends Author {
  readonly labels: KeyLabels
  readonly end: KeyEnd
  /** Of a key that was issued elsewhere, in base64url; undefined for a new key. */
  readonly digest: string | undefined
}

export interface ChangeOrder extends Author {
  readonly id: string
  readonly labels: KeyLabels | undefined
  readonly end: KeyEnd | undefined
}

export interface RevokeOrder extends Author {
  readonly id: string
  /** Whether the requests of the key that are under way go on. */
  readonly keepsStreams?: boolean | undefined
}

/** A key that was just issued. Nobody can read its text again. */
export interface CreatedKey {
  readonly key: IssuedKey
  /** Undefined if only its digest is known. */
  readonly text: string | undefined
}

/** What an operator did to a key. */
export interface KeyNote {
  readonly change: 'key_created' | 'key_changed' | 'key_revoked'
  readonly key: IssuedKey
  readonly former: IssuedKey | undefined
}

export interface KeyControlParts {
  readonly table: KeyTable
  readonly logger: Logger
  readonly wallMs: () => number
  /** Ends the requests of these keys that are under way in this instance, and returns how many. */
  readonly endRequests?: ((ids: readonly string[]) => Promise<number>) | undefined
  /** For the list of changes. */
  readonly note?: ((note: KeyNote) => void) | undefined
}

/** Changes that are made durable together. */
const BATCH = SPARE_RECORDS / 2
/** Keys that one page of a list looks at. */
const LOOKED_AT = 50_000

interface Order {
  readonly id: string
  /** Returns the next state of the key; undefined if nothing is to be done. Throws an ApiError. */
  readonly next: (former: IssuedKey | undefined, wallMs: number) => IssuedKey | undefined
  readonly resolve: (key: IssuedKey) => void
  readonly reject: (error: unknown) => void
}

/** The main thread's owner of the issued keys: what operators do to them, one batch after the other. */
export class KeyControl {
  readonly #parts: KeyControlParts
  #storage: KeyStorage | undefined
  readonly #orders: Order[] = []
  #isWorking = false

  constructor(parts: KeyControlParts) {
    this.#parts = parts
  }

  /** Resolves when the keys from before the start are known, or when waiting any longer makes no sense. */
  async start(storage: KeyStorage): Promise<void> {
    this.#storage = storage
    await storage.start()
  }

  get isDurable(): boolean {
    return this.#storage?.isDurable ?? false
  }

  isSlow(): boolean {
    return this.#storage?.isSlow() ?? false
  }

  find(id: string): IssuedKey {
    const key = this.#loadedTable().get(id)
    if (key === undefined) throw this.#noSuch(id)
    return key
  }

  /** A page may have fewer keys than there are; then `next` is defined. */
  page(labels: KeyLabels, after: string | undefined, limit: number): { keys: IssuedKey[]; next: string | undefined } {
    return this.#loadedTable().page(labels, after, limit, LOOKED_AT)
  }

  async create({ labels, end, digest: given, actor, reason }: CreateOrder): Promise<CreatedKey> {
    const table = this.#loadedTable()
    const text = given === undefined ? newKeyText() : undefined
    const digest = text === undefined ? Buffer.from(given!, 'base64url') : keyDigest(text)
    const id = keyIdOf(digest)
    // Ids have 48 bits: of a million keys, one in a few hundred million new ones meets an id that is taken.
    if (text !== undefined && (table.has(id) || table.revoked.has(id))) return this.create({ labels, end, digest: given, actor, reason })
    const key = await this.#order(id, (former, wallMs) => {
      if (table.revoked.has(id)) throw wasRevoked(id)
      if (former !== undefined) throw exists(id)
      const expiresMs = endMs(end, wallMs)
      return {
        id,
        digest,
        labels,
        expiresMs,
        createdMs: Math.floor(wallMs / 1000) * 1000,
        actor,
        reason,
        momentMs: wallMs,
        edit: undefined,
        isRevoked: false,
      }
    })
    this.#note({ change: 'key_created', key, former: undefined })
    return { key, text }
  }

  async change({ id, labels, end, actor, reason }: ChangeOrder): Promise<IssuedKey> {
    let former: IssuedKey | undefined
    const key = await this.#order(id, (current, wallMs) => {
      if (current === undefined) throw this.#noSuch(id)
      if (current.isRevoked) throw new ApiError('key_revoked', `key ${id} is revoked, and stays so: issue another one with the same labels`)
      former = current
      const expiresMs = end === undefined ? current.expiresMs : endMs(end, wallMs)
      return { ...current, labels: labels ?? current.labels, expiresMs, momentMs: wallMs, edit: { actor, reason } }
    })
    this.#note({ change: 'key_changed', key, former })
    return key
  }

  /**
   * A key that is revoked already stays as it is, so that the request can be repeated. Returns how many requests of the key were ended here; other instances
   * end theirs when they hear of it.
   */
  async revoke({ id, actor, reason, keepsStreams = false }: RevokeOrder): Promise<number> {
    const { table } = this.#parts
    if (!table.has(id) && table.revoked.has(id)) return 0
    let former: IssuedKey | undefined
    const key = await this.#order(id, (current, wallMs) => {
      if (current === undefined) throw noSuch(id)
      former = current
      const edit: KeyEdit = keepsStreams ? { actor, reason, streams: 'kept' } : { actor, reason }
      return current.isRevoked ? undefined : { ...current, momentMs: wallMs, edit, isRevoked: true }
    })
    if (!former!.isRevoked) this.#note({ change: 'key_revoked', key, former })
    return keepsStreams ? 0 : ((await this.#parts.endRequests?.([id])) ?? 0)
  }

  /** An operator knows that the end of the file was cut off. */
  async acknowledgeLoss({ actor, reason }: Author): Promise<void> {
    try {
      await this.#storage?.acknowledgeLoss()
    } catch (error) {
      throw this.#notWritten(error as Error)
    }
    this.#parts.logger.info({ event: 'keys_tail_acknowledged', actor, reason }, 'an operator acknowledged that the file of keys was cut')
  }

  async close(): Promise<void> {
    await this.#storage?.close()
  }

  #loadedTable(): KeyTable {
    if (this.#parts.table.isLoaded) return this.#parts.table
    throw new ApiError('store_unavailable', 'the keys are not loaded yet, because Redis has not responded: nothing was changed, try again')
  }

  async #order(id: string, next: Order['next']): Promise<IssuedKey> {
    this.#loadedTable()
    const problem = this.#storage?.problem()
    if (problem !== undefined) throw new ApiError('store_unavailable', `nothing was changed, because ${problem}`)
    return new Promise((resolve, reject) => {
      this.#orders.push({ id, next, resolve, reject })
      if (!this.#isWorking) void this.#work()
    })
  }

  /** While one batch is written to the disk, the next one gathers. */
  async #work(): Promise<void> {
    this.#isWorking = true
    // Orders of this turn of the event loop belong together.
    await new Promise((resolve) => setImmediate(resolve))
    while (this.#orders.length > 0) await this.#storeBatch()
    this.#isWorking = false
  }

  async #storeBatch(): Promise<void> {
    const { table } = this.#parts
    const batch: { order: Order; key: IssuedKey; former: IssuedKey | undefined; prepared: PreparedKey }[] = []
    let added = 0
    for (const order of this.#takeOrders()) {
      try {
        const former = table.get(order.id)
        const next = order.next(former, this.#parts.wallMs())
        if (next === undefined) {
          order.resolve(former!)
          continue
        }
        // Moments rise even if the clock is set back.
        const key = { ...next, momentMs: Math.max(microseconds(next.momentMs), (former?.momentMs ?? 0) + 0.001) }
        if (former === undefined && table.size + added >= table.maxKeys) throw tooMany(table.maxKeys)
        const prepared = table.prepare(key)
        if (prepared === undefined) throw new ApiError('bad_request', NO_ROOM)
        if (former === undefined) added++
        batch.push({ order, key, former, prepared })
      } catch (error) {
        order.reject(error)
      }
    }
    if (batch.length === 0) return
    try {
      const outcomes = await this.#storage!.store(batch)
      for (const [i, { order, key, prepared }] of batch.entries()) {
        const outcome = outcomes[i]!
        if (typeof outcome !== 'number') {
          table.discard(prepared)
          order.reject(refusalOf(outcome, order.id, table.maxKeys))
          continue
        }
        const stored = { ...key, momentMs: outcome }
        // Another instance may have changed the key right after this one, and that may have arrived already.
        if (table.accepts(stored)) table.publish(prepared, outcome)
        else table.discard(prepared)
        order.resolve(stored)
      }
    } catch (error) {
      for (const { order, prepared } of batch) {
        table.discard(prepared)
        order.reject(error instanceof ApiError ? error : this.#notWritten(error as Error))
      }
    }
  }

  /** Takes the next orders, at most one for each key, because each is checked against what was there before the batch. */
  #takeOrders(): Order[] {
    const ids = new Set<string>()
    let count = 0
    while (count < this.#orders.length && count < BATCH && !ids.has(this.#orders[count]!.id)) ids.add(this.#orders[count++]!.id)
    return this.#orders.splice(0, count)
  }

  #noSuch(id: string): ApiError {
    return this.#parts.table.revoked.has(id) ? wasRevoked(id) : noSuch(id)
  }

  #notWritten(error: Error): ApiError {
    const reason = error.message
    this.#parts.logger.error({ event: 'keys_not_written', reason }, 'the file of keys cannot be written: nothing was changed')
    return new ApiError('store_unavailable', `nothing was changed, because EDGE_KEYS_FILE cannot be written: ${reason}`)
  }

  #note(note: KeyNote): void {
    logKey(this.#parts.logger, note)
    this.#parts.note?.(note)
  }
}

/** Labels stay out of the log, because they may name people. */
function logKey(logger: Logger, { change, key, former }: KeyNote): void {
  const { id } = key
  const { actor, reason } = change === 'key_created' ? key : key.edit!
  const expires_at = key.expiresMs === undefined ? null : new Date(key.expiresMs).toISOString()
  if (change === 'key_created') logger.info({ event: 'key_created', id, actor, reason, expires_at }, 'an operator issued a key')
  else if (change === 'key_revoked') logger.info({ event: 'key_revoked', id, actor, reason }, 'an operator revoked a key')
  else {
    const labels_changed = JSON.stringify(former!.labels) !== JSON.stringify(key.labels)
    logger.info({ event: 'key_changed', id, actor, reason, expires_at, labels_changed }, 'an operator changed a key')
  }
}

const NO_ROOM =
  'there is no room for the labels and reasons of so many keys: nothing was changed. Use shorter or fewer different ones, or raise EDGE_MAX_KEYS, which makes room too'

function endMs(end: KeyEnd, wallMs: number): number | undefined {
  if (end === 'never') return undefined
  const untilMs = 'atMs' in end ? end.atMs : Math.ceil((wallMs + end.inMs) / 1000) * 1000
  if (untilMs <= wallMs)
    throw new ApiError('bad_until', `expires_at: ${new Date(untilMs).toISOString()} is in the past; to end a key now, revoke it`)
  return untilMs
}

/** Rounds to microseconds, as Redis counts. */
function microseconds(ms: number): number {
  return Math.round(ms * 1000) / 1000
}

function noSuch(id: string): ApiError {
  return new ApiError('unknown_key', `there is no key ${show(id)}; edge keys list shows the ids`)
}

function exists(id: string): ApiError {
  return new ApiError('key_exists', `key ${id} exists already: nothing was changed`)
}

/** Of a key that was revoked a while ago, this is all that is known. */
function wasRevoked(id: string): ApiError {
  return new ApiError('key_revoked', `key ${id} was issued before and is revoked, and stays so: nothing was changed`)
}

function refusalOf(outcome: Exclude<PutOutcome, number>, id: string, maxKeys: number): ApiError {
  if (outcome === 'revoked') return wasRevoked(id)
  return outcome === 'full' ? tooMany(maxKeys) : changedMeanwhile(id)
}

function changedMeanwhile(id: string): ApiError {
  return new ApiError(
    'key_exists',
    `key ${id} was changed at the same time on another instance: nothing was changed, look at it and try again`,
  )
}

function tooMany(max: number): ApiError {
  return new ApiError(
    'bad_request',
    `there are ${max} keys already, those included that ended in the last 30 days: nothing was changed. Raise EDGE_MAX_KEYS`,
  )
}
