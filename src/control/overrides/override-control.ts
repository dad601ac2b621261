import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import { ApiError } from '../../admin/api/api-error.ts'
import {
  type EditOrder,
  type EndedEntry,
  type EndedOverride,
  type EndOrder,
  idOfKey,
  type ListedOverride,
  type Override,
  type OverrideOrder,
  type OverridesChange,
  overrideKey,
  type PreviewedOverride,
  type SetEntry,
  subjectKey,
  type TimedOverride,
} from '../../overrides/override.ts'
import { type EntryChange, MAX_OVERRIDES, OverrideMap, type OverrideStorage } from '../../overrides/override-map.ts'
import type { Clock } from '../../time/clock.ts'
import type { ControlCallName, ControlHandlers } from '../control-calls.ts'
import { logEdited, logEnded, logSet } from './override-log.ts'
import { changedMeanwhile, noSuch, otherThere, refuseLong, tooManyOverrides, untilMsOf } from './override-refusals.ts'

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
/** The most overrides that are remembered after their end, each of 4 KiB at most. */
const MAX_ENDED = 200

export interface OverrideControlParts {
  readonly clock: Clock
  readonly logger: Logger
  /** Announces a change to all workers that run. */
  readonly announce: (change: OverridesChange) => void
  /** Resolves when the workers know everything that was announced. */
  readonly known: () => Promise<unknown>
  /** Resolves when the workers have ended the streams that blocks in force cover. */
  readonly streamsCut: () => Promise<unknown>
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
  /** The overrides that ended last, the latest at the end. */
  readonly #ended: EndedOverride[] = []
  /** Overrides that were announced to the workers, by key. This is the only such set on the main thread, and a starting worker is sent it. */
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

  /** The overrides that ended, were replaced or were edited since this process started, the latest first. */
  listEnded(): EndedOverride[] {
    return [...this.#ended].reverse()
  }

  find(id: string): ListedOverride {
    return this.#listed(this.#find(id))
  }

  /** Resolves when the override is stored durably, if it can be, and in force in all workers of this instance. */
  async create(order: OverrideOrder): Promise<ListedOverride> {
    const { override, expected } = this.#ordered(order)
    return this.#put(override, expected, order.replace)
  }

  /** Resolves when the edited override is stored durably, if it can be, and in force in all workers of this instance. Its id stays. */
  async edit(order: EditOrder): Promise<ListedOverride> {
    const { override, expected } = this.#edited(order)
    return this.#put(override, expected, order.id)
  }

  /** Checks an order as `create` or `edit` would, and changes nothing. */
  preview(order: OverrideOrder | EditOrder): PreviewedOverride {
    const { override, expected } = 'key' in order ? this.#edited(order) : this.#ordered(order)
    const { subject } = override
    const wallMs = this.#storage!.wallMs()
    const current = this.map.overrideOf(subject, wallMs)
    const key = current && overrideKey(current)
    if (key !== expected) throw otherThere(key, current, 'key' in order ? order.id : order.replace)
    const isForOne = subject !== 'all_policies' && subject.values !== undefined
    const before = current ?? (isForOne ? this.map.overrideOf({ ...subject, values: undefined }, wallMs) : undefined)
    return { override, before, replaces: current?.id }
  }

  /** Resolves when the override is no longer in force in any worker of this instance. */
  async end({ id, actor, reason }: EndOrder): Promise<void> {
    const override = this.#find(id)
    const result = await this.#storage!.put({ kind: 'ended', end: { id, subject: override.subject, actor, reason } }, overrideKey(override))
    if (result.kind === 'exists') throw result.key !== undefined && idOfKey(result.key) === id ? changedMeanwhile(id) : noSuch(id)
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

  #find(id: string): Override {
    const override = this.map.find(id, this.#loadedStorage().wallMs())
    if (override === undefined) throw noSuch(id)
    return override
  }

  /** Returns a new override, and the key of the one that it is to replace. */
  #ordered({ until, replace, ...content }: OverrideOrder): Ordered {
    const wallMs = this.#loadedStorage().wallMs()
    const id = randomBytes(6).toString('hex')
    const override = { id, createdMs: Math.floor(wallMs), untilMs: untilMsOf(until, wallMs), ...content }
    this.#refuseTooMuch(override)
    const replaced = replace === undefined ? undefined : this.map.find(replace, wallMs)
    // One that is not known here may be known to the storage, which other instances use too.
    return { override, expected: replaced === undefined ? replace : overrideKey(replaced) }
  }

  /** Returns an override as an operator edited it, and the key that it has until then. */
  #edited({ id, key, change, until, actor, reason }: EditOrder): Ordered {
    const { sinceMs: _, ...current } = this.#find(id)
    if (overrideKey(current) !== key) throw changedMeanwhile(id)
    const wallMs = this.#storage!.wallMs()
    const override = {
      ...current,
      change: change ?? current.change,
      untilMs: until === undefined ? current.untilMs : untilMsOf(until, wallMs),
      edit: { version: randomBytes(4).toString('hex'), actor, reason, atMs: Math.floor(wallMs) },
    }
    this.#refuseTooMuch(override)
    return { override, expected: key }
  }

  /** `replace` is the id that `expected` belongs to. */
  async #put(override: Omit<Override, 'sinceMs'>, expected: string | undefined, replace: string | undefined): Promise<ListedOverride> {
    const result = await this.#storage!.put({ kind: 'set', override }, expected)
    if (result.kind === 'exists') {
      const { key } = result
      throw otherThere(key, key === undefined ? undefined : this.map.find(idOfKey(key), this.#storage!.wallMs()), replace)
    }
    const put = (result.entry as SetEntry).override
    await this.#inForce(put)
    if (put.change.kind === 'block' && put.change.cutsStreams) await this.#parts.streamsCut()
    return this.#listed(put)
  }

  #listed(override: Override): ListedOverride {
    return { override, isDurable: this.#storage!.isDurable(override) }
  }

  #refuseTooMuch(content: Omit<Override, 'sinceMs'>): void {
    if (this.#open.size >= MAX_OVERRIDES && this.map.overrideOf(content.subject, content.createdMs) === undefined) throw tooManyOverrides()
    refuseLong(content)
  }

  async #inForce(override: Override): Promise<void> {
    await this.#known()
    const { fromMs } = this.#storage!.timed(override)
    const waitMs = Math.ceil(fromMs - this.#parts.clock.nowMs())
    // A timer may fire up to a millisecond early.
    if (waitMs > 0) await sleep(Math.min(waitMs, MAX_FORCE_MS) + 1)
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
      const key = subjectKey(was.subject)
      const replaced = this.#storage!.timed(was)
      // Until an override is in force, the one that it replaced is; whoever replaces it replaces that one.
      const inForce = replaced.fromMs > this.#parts.clock.nowMs() ? this.#replaced.get(key) : undefined
      this.#replaced.set(key, { ...(inForce ?? replaced), toMs: fromMs })
    }
    // An instance of an earlier version leaves the edit out of what it writes back.
    if (was !== undefined && was.id === override.id && override.edit !== undefined) {
      logEdited(logger, was, override)
      this.#noteEnded(was, 'edited', override.edit)
      return
    }
    if (was !== undefined) {
      logEnded(logger, was, 'replaced', override)
      this.#noteEnded(was, 'replaced', override)
    }
    if (!this.#isLoading) logSet(logger, override)
  }

  #noteEnd(was: Override | undefined, end: EndedEntry): void {
    if (was !== undefined) this.#parts.note?.({ kind: 'ended', override: was, end })
    this.#replaced.delete(subjectKey(end.subject))
    if (was === undefined) return
    logEnded(this.#parts.logger, was, 'ended', end)
    this.#noteEnded(was, 'ended', end)
  }

  #noteEnded(override: Override, why: EndedOverride['why'], by: EndedOverride['by']): void {
    this.#ended.push({ override, endedMs: this.#storage!.wallMs(), why, by: by && { actor: by.actor, reason: by.reason } })
    if (this.#ended.length > MAX_ENDED) this.#ended.shift()
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
    const gone = [...this.#announced.keys()].filter((key) => !current.has(key))
    const put = [...current.values()].filter((timed) => this.#announced.get(overrideKey(timed.override)) !== timed).slice(0, atMost)
    if (gone.length + put.length === 0) return false
    for (const key of gone) this.#announced.delete(key)
    for (const timed of put) this.#announced.set(overrideKey(timed.override), timed)
    announce({ put, gone })
    return true
  }

  /** Returns the overrides by id. Those that workers know closely enough are the objects that were announced. */
  #current(): Map<string, TimedOverride> {
    const current = new Map<string, TimedOverride>()
    for (const timed of this.#replaced.values()) current.set(overrideKey(timed.override), this.#asAnnounced(timed, 0))
    for (const override of this.#open.values())
      current.set(overrideKey(override), this.#asAnnounced(this.#storage!.timed(override), TOLERATED_STEP_MS))
    return current
  }

  #asAnnounced(timed: TimedOverride, toleratedMs: number): TimedOverride {
    const known = this.#announced.get(overrideKey(timed.override))
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
      this.#noteEnded(override, 'over', undefined)
    }
    this.map.prune(wallMs)
    const stepMs = Math.abs(wallMs - clock.nowMs() - this.#clockOffsetMs)
    if (over.length > 0 || stepMs > TOLERATED_STEP_MS) this.#announceSoon()
    this.#schedule()
  }
}

interface Ordered {
  readonly override: Omit<Override, 'sinceMs'>
  /** Key of the override that must be there; undefined: none. */
  readonly expected: string | undefined
}

type OverrideCallName = Extract<ControlCallName, `${string}override${string}`>

/** Handlers of workers' calls about overrides. */
export function overrideCalls(control: OverrideControl): Pick<ControlHandlers, OverrideCallName> {
  return {
    list_overrides: () => control.list().map((listed) => JSON.stringify(listed)),
    list_ended_overrides: () => control.listEnded().map((ended) => JSON.stringify(ended)),
    find_override: (id) => control.find(id),
    preview_override: (order) => control.preview(order),
    edit_override: (order) => control.edit(order),
    create_override: (order) => control.create(order),
    end_override: async (order) => void (await control.end(order)),
  }
}
