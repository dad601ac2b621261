import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import { ApiError } from '../../admin/api/api-error.ts'
import {
  type EndedEntry,
  type EndOrder,
  type ListedOverride,
  type Override,
  type OverrideChange,
  type OverrideOrder,
  type OverrideSubject,
  type OverridesChange,
  type SetEntry,
  subjectKey,
  type TimedOverride,
  type Until,
} from '../../overrides/override.ts'
import {
  type EntryChange,
  encodeEntry,
  MAX_ENTRY_BYTES,
  MAX_OVERRIDES,
  OverrideMap,
  type OverrideStorage,
} from '../../overrides/override-map.ts'
import { show } from '../../text/problem.ts'
import type { Clock } from '../../time/clock.ts'
import type { ControlHandlers } from '../control-calls.ts'

/** The longest that an override may last; longer changes belong in the bundle. */
const MAX_DAYS = 3653
const MAX_MS = MAX_DAYS * 24 * 3600 * 1000
/** Changes within this time of each other are announced together. */
const GATHER_MS = 10
/** Workers take in this many overrides at once, and serve requests in between. */
const ANNOUNCED_AT_ONCE = 50
const PAUSE_MS = 1
/** How often the clocks are compared while there are overrides: these end at times of the wall clock, which may be set. */
const LOOK_MS = 250
/** A smaller change in the difference between the clocks is not announced to the workers. */
const TOLERATED_STEP_MS = 20
/** The longest that a response waits for its override to come into force. */
const MAX_FORCE_MS = 2000

export interface OverrideControlParts {
  readonly clock: Clock
  readonly logger: Logger
  /** Announces a change to all workers that run. */
  readonly announce: (change: OverridesChange) => void
  /** Resolves when the workers know everything that was announced. */
  readonly known: () => Promise<unknown>
  /** For the list of changes. It is told of overrides from before the start, too. */
  readonly note?: (note: OverrideNote) => void
}

/** What became of an override: it was set, perhaps in place of another one, an operator ended it, or it has expired. */
export type OverrideNote =
  | { readonly kind: 'set'; readonly override: Override; readonly replaced: Override | undefined }
  | { readonly kind: 'ended'; readonly override: Override; readonly end: EndedEntry }
  | { readonly kind: 'expired'; readonly override: Override }

/** The one owner of an instance's overrides: those that operators set and end here, those changed elsewhere in the fleet, and those that expire. */
export class OverrideControl {
  readonly map: OverrideMap
  readonly #parts: OverrideControlParts
  #storage: OverrideStorage | undefined
  /** Overrides that have neither expired nor been ended, by id. */
  readonly #open = new Map<string, Override>()
  /** Replaced overrides, by subject; each stays in force until its successor is. */
  readonly #replaced = new Map<string, TimedOverride>()
  /** Overrides that were announced to the workers, by id. This is the only such set on the main thread, and a starting worker is sent it. */
  readonly #announced = new Map<string, TimedOverride>()
  #isLoading = true
  #timer: NodeJS.Timeout | undefined
  /** Resolves when all changes so far have been announced. */
  #announcing: Promise<void> | undefined
  /** Difference between the wall clock and the monotonic clock at the last announcement to the workers. */
  #clockOffsetMs = 0

  constructor(parts: OverrideControlParts) {
    this.#parts = parts
    this.map = new OverrideMap((changes) => this.#note(changes))
  }

  /** Resolves when the overrides from the storage have been announced. */
  async start(storage: OverrideStorage): Promise<void> {
    this.#storage = storage
    await storage.start()
    this.#isLoading = false
    // No requests are served yet, so all overrides can be announced at once.
    this.#announce(Number.POSITIVE_INFINITY)
    if (this.#open.size > 0) {
      this.#parts.logger.info(
        { event: 'overrides_loaded', overrides: this.#open.size },
        'overrides from before the start are in force again',
      )
    }
  }

  list(): ListedOverride[] {
    const storage = this.#loadedStorage()
    return this.map.list(storage.wallMs()).map((override) => this.#listed(override))
  }

  /** The override that stops all enforcement, if there is one. */
  get shadowAll(): ListedOverride | undefined {
    const shadow = this.#isLoading ? undefined : this.map.overrideOf('all_policies', this.#storage!.wallMs())
    return shadow && this.#listed(shadow)
  }

  /** Resolves when the override is stored durably, if it can be, and in force in all workers of this instance. */
  async create({ until, replace, ...content }: OverrideOrder): Promise<ListedOverride> {
    const storage = this.#loadedStorage()
    const createdMs = storage.wallMs()
    const override = { id: randomBytes(6).toString('hex'), createdMs, untilMs: untilMsOf(until, createdMs), ...content }
    this.#refuseTooMuch(override)
    const result = await storage.put({ kind: 'set', override }, replace)
    if (result.kind === 'exists') throw otherThere(result.id, replace)
    const put = (result.entry as SetEntry).override
    await this.#inForce(put)
    return this.#listed(put)
  }

  /** Resolves when the override is no longer in force in any worker of this instance. */
  async end({ id, actor, reason }: EndOrder): Promise<void> {
    const storage = this.#loadedStorage()
    const override = this.map.find(id, storage.wallMs())
    if (override === undefined) throw noSuch(id)
    const result = await storage.put({ kind: 'ended', end: { id, subject: override.subject, actor, reason } }, id)
    if (result.kind === 'exists') throw noSuch(id)
    await this.#known()
  }

  /** All overrides that were announced to the workers and are in force or will be, for a worker that starts. */
  announced(): readonly TimedOverride[] {
    return [...this.#announced.values()]
  }

  /** Resolves when all changes so far have been announced. */
  async allAnnounced(): Promise<void> {
    await this.#announcing
  }

  async close(): Promise<void> {
    clearTimeout(this.#timer)
    await this.#storage?.close()
  }

  #loadedStorage(): OverrideStorage {
    if (this.#isLoading) throw new ApiError('store_unavailable', 'overrides are being loaded: nothing was changed, try again')
    return this.#storage!
  }

  #listed(override: Override): ListedOverride {
    return { override, isDurable: this.#storage!.isDurable(override) }
  }

  #refuseTooMuch(content: Omit<Override, 'sinceMs'>): void {
    if (this.#open.size >= MAX_OVERRIDES && this.map.overrideOf(content.subject, content.createdMs) === undefined) throw tooManyOverrides()
    const override = { ...content, sinceMs: LAST_MS }
    const bytes = Buffer.byteLength(encodeEntry({ kind: 'set', momentMs: LAST_MS, forgetMs: LAST_MS, override }))
    if (bytes > MAX_ENTRY_BYTES)
      throw new ApiError('bad_request', `with its names, values and reason the override has ${bytes} bytes: ${MAX_ENTRY_BYTES} at most`)
  }

  async #inForce(override: Override): Promise<void> {
    await this.#known()
    const { fromMs } = this.#storage!.timed(override)
    const waitMs = Math.ceil(fromMs - this.#parts.clock.nowMs())
    if (waitMs > 0) await sleep(Math.min(waitMs, MAX_FORCE_MS))
  }

  /** Resolves when all workers know the changes so far. */
  async #known(): Promise<void> {
    await this.allAnnounced()
    await this.#parts.known()
  }

  #note(changes: readonly EntryChange[]): void {
    const wallMs = this.#storage!.wallMs()
    for (const { before, after } of changes) {
      const was = before?.kind === 'set' ? this.#open.get(before.override.id) : undefined
      if (was !== undefined) this.#open.delete(was.id)
      if (after.kind === 'ended') this.#noteEnd(was, after)
      else if (after.override.untilMs > wallMs) this.#noteSet(was, after.override)
    }
    this.#announceSoon()
    this.#schedule()
  }

  #noteSet(was: Override | undefined, override: Override): void {
    this.#parts.note?.({ kind: 'set', override, replaced: was })
    const { logger } = this.#parts
    this.#open.set(override.id, override)
    if (was !== undefined) {
      const { fromMs } = this.#storage!.timed(override)
      this.#replaced.set(subjectKey(was.subject), { ...this.#storage!.timed(was), toMs: fromMs })
      logEnded(logger, was, 'replaced', override)
    }
    if (!this.#isLoading) logSet(logger, override)
  }

  #noteEnd(was: Override | undefined, end: EndedEntry): void {
    if (was !== undefined) this.#parts.note?.({ kind: 'ended', override: was, end })
    this.#replaced.delete(subjectKey(end.subject))
    if (was !== undefined) logEnded(this.#parts.logger, was, 'ended', end)
  }

  #announceSoon(): void {
    if (!this.#isLoading) this.#announcing ??= this.#announceInParts()
  }

  async #announceInParts(): Promise<void> {
    await sleep(GATHER_MS, undefined, { ref: false })
    while (this.#announce(ANNOUNCED_AT_ONCE)) await sleep(PAUSE_MS, undefined, { ref: false })
    this.#announcing = undefined
  }

  /** Announces what the workers do not know yet, at most `atMost` overrides. Returns whether there was anything to announce. */
  #announce(atMost: number): boolean {
    const { clock, announce } = this.#parts
    this.#clockOffsetMs = this.#storage!.wallMs() - clock.nowMs()
    for (const [key, { toMs }] of this.#replaced) if (toMs <= clock.nowMs()) this.#replaced.delete(key)
    const current = this.#current()
    const gone = [...this.#announced.keys()].filter((id) => !current.has(id))
    const put = [...current.values()].filter((timed) => this.#announced.get(timed.override.id) !== timed).slice(0, atMost)
    if (gone.length + put.length === 0) return false
    for (const id of gone) this.#announced.delete(id)
    for (const timed of put) this.#announced.set(timed.override.id, timed)
    announce({ put, gone })
    return true
  }

  /** Returns the overrides by id. Those that workers know closely enough are the objects that were announced. */
  #current(): Map<string, TimedOverride> {
    const current = new Map<string, TimedOverride>()
    for (const timed of this.#replaced.values()) current.set(timed.override.id, this.#asAnnounced(timed, 0))
    for (const override of this.#open.values())
      current.set(override.id, this.#asAnnounced(this.#storage!.timed(override), TOLERATED_STEP_MS))
    return current
  }

  #asAnnounced(timed: TimedOverride, toleratedMs: number): TimedOverride {
    const known = this.#announced.get(timed.override.id)
    return known?.fromMs === timed.fromMs && Math.abs(known.toMs - timed.toMs) <= toleratedMs ? known : timed
  }

  /** Schedules the next check for expired overrides and clock steps. */
  #schedule(): void {
    clearTimeout(this.#timer)
    if (this.map.size === 0 && this.#open.size === 0) return
    const wallMs = this.#storage!.wallMs()
    let waitMs = LOOK_MS
    for (const { untilMs } of this.#open.values()) waitMs = Math.min(waitMs, untilMs - wallMs)
    this.#timer = setTimeout(() => this.#look(), Math.max(1, Math.ceil(waitMs))).unref()
  }

  #look(): void {
    const { clock, logger } = this.#parts
    const wallMs = this.#storage!.wallMs()
    const over = [...this.#open.values()].filter(({ untilMs }) => untilMs <= wallMs)
    for (const override of over) {
      this.#parts.note?.({ kind: 'expired', override })
      this.#open.delete(override.id)
      logEnded(logger, override, 'over', override)
    }
    this.map.prune(wallMs)
    const stepMs = Math.abs(wallMs - clock.nowMs() - this.#clockOffsetMs)
    if (over.length > 0 || stepMs > TOLERATED_STEP_MS) this.#announceSoon()
    this.#schedule()
  }
}

export function tooManyOverrides(): ApiError {
  return new ApiError('bad_request', `there are ${MAX_OVERRIDES} overrides already, the most there may be: end some first`)
}

/** The largest time value in JavaScript: no time is longer as text. */
const LAST_MS = 8.64e15

function untilMsOf(until: Until, wallMs: number): number {
  const untilMs = 'atMs' in until ? until.atMs : wallMs + until.inMs
  if (untilMs <= wallMs) throw new ApiError('bad_until', `until: ${new Date(untilMs).toISOString()} is in the past`)
  if (untilMs > wallMs + MAX_MS)
    throw new ApiError('bad_until', `until: at most ${MAX_DAYS} days from now; what is to stay belongs in the bundle`)
  return untilMs
}

function otherThere(id: string | undefined, replace: string | undefined): ApiError {
  if (id === undefined) return new ApiError('unknown_override', `there is no override ${show(replace)} to replace: leave replace out`)
  const way = replace === undefined ? 'end it, or replace it by its id' : `replace names ${show(replace)}`
  return new ApiError('override_exists', `override ${id} already exists: ${way}`)
}

function noSuch(id: string): ApiError {
  return new ApiError('unknown_override', `there is no override ${show(id)}: it has expired, was ended or replaced, or never existed`)
}

/** Handlers of workers' calls about overrides. */
export function overrideCalls(control: OverrideControl): Pick<ControlHandlers, 'list_overrides' | 'create_override' | 'end_override'> {
  return {
    list_overrides: () => control.list().map((listed) => JSON.stringify(listed)),
    create_override: (order) => control.create(order),
    end_override: async (order) => void (await control.end(order)),
  }
}

/** Why an override is no longer in force. */
export type EndOfOverride = 'ended' | 'replaced' | 'over'

const END_WORDS: Readonly<Record<EndOfOverride, string>> = {
  ended: 'an operator ended an override',
  replaced: 'an override was replaced by another one',
  over: 'an override has expired',
}

/** Callers' values stay out of the log, because they are personal data. */
function logSet(logger: Logger, { id, subject, change, untilMs, actor, reason }: Override): void {
  const until = new Date(untilMs).toISOString()
  logger.info(
    { event: 'override_set', id, actor, reason, ...subjectFields(subject), change: changeText(change), until },
    change.kind === 'shadow' ? 'an operator switched all policies to shadow mode' : 'an operator set an override for a rule',
  )
}

/** The last argument says who ended it and why or, if it expired, who had set it and why. */
export function logEnded(
  logger: Logger,
  { id, subject }: Pick<Override, 'id' | 'subject'>,
  why: EndOfOverride,
  { actor, reason }: Pick<Override, 'actor' | 'reason'>,
): void {
  logger.info({ event: 'override_ended', id, actor, reason, ...subjectFields(subject), why }, END_WORDS[why])
}

function subjectFields(subject: OverrideSubject): { policy?: string; rule?: string; for?: 'one_caller' | 'all_callers' } {
  if (subject === 'all_policies') return {}
  const { policy, rule, values } = subject
  return { policy, rule, for: values === undefined ? 'all_callers' : 'one_caller' }
}

export function changeText(change: OverrideChange): string {
  switch (change.kind) {
    case 'multiply':
      return `multiply ${change.factor}`
    case 'set':
      return `set ${JSON.stringify(change.fields)}`
    case 'shadow':
      return 'shadow_all'
    default:
      return change.kind
  }
}
