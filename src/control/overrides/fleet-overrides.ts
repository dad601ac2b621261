import { createHash } from 'node:crypto'
import type { Logger } from 'pino'
import { ApiError } from '../../admin/api/api-error.ts'
import { type Override, type OverrideEntry, overrideKey, subjectKey, subjectOf, type TimedOverride } from '../../overrides/override.ts'
import { decodeEntry, encodeEntry, type NewEntry, type OverrideMap, type PutResult } from '../../overrides/override-map.ts'
import {
  CONTROL_CAPACITY,
  type ControlEntry,
  type ControlScript,
  controlEntryText,
  type RedisClock,
  readControlEntry,
  type UpcomingOverride,
} from '../../store/redis/control-script.ts'
import { LinkError } from '../../store/redis/link/call.ts'
import type { Clock } from '../../time/clock.ts'

/** Time between an override's arrival in Redis and its coming into force. Instances poll more often than that, so all of them know it by then. */
const NOTICE_MS = 1000
/** Minimum time until an override comes into force on an instance that learns of it late, so that all its threads know it by then. */
const LATE_NOTICE_MS = 50
const TOO_MANY = `Redis already holds the maximum of ${CONTROL_CAPACITY} overrides; one that was ended counts until its original end`
const TOO_SOON = 'until: expected a time more than 1 s from now: on a fleet, an override takes effect 1 s after it is set'

export interface FleetOverridesParts {
  readonly map: OverrideMap
  readonly script: ControlScript
  readonly redisClock: RedisClock
  readonly clock: Clock
  readonly logger: Logger
}

/** The overrides of a fleet: this instance's override map, and the same map in Redis. */
export class FleetOverrides {
  readonly #parts: FleetOverridesParts
  /** When each override comes into force here, on the monotonic clock. It never changes, so that a raise is added to this instance's own counts only once. */
  readonly #fromMs = new WeakMap<Override, number>()
  /** Digests of the entries that were logged as unreadable, at most as many as there can be entries. */
  readonly #unreadable = new Set<string>()
  #isServing = false

  constructor(parts: FleetOverridesParts) {
    this.#parts = parts
  }

  /** From now on, requests are decided by the overrides known so far, so those that arrive later get LATE_NOTICE_MS. */
  noteServing(): void {
    this.#isServing = true
  }

  /** Unix time by Redis's clock or, until that is known, by this machine's. */
  wallMs(): number {
    const { redisClock, clock } = this.#parts
    return redisClock.isKnown ? clock.nowMs() + redisClock.aheadMs : clock.wallMs()
  }

  timed(override: Override): TimedOverride {
    const { clock } = this.#parts
    const toNowMs = clock.nowMs() - this.wallMs()
    return { override, fromMs: this.#fromMs.get(override) ?? override.sinceMs + toNowMs, toMs: override.untilMs + toNowMs }
  }

  /** Merges entries from Redis into the map. Returns whether the map had a later entry for one of the subjects. */
  merge(entries: readonly (readonly [subject: string, entry: string])[]): boolean {
    const read: OverrideEntry[] = []
    let unreadable = 0
    for (const [subject, text] of entries) {
      const entry = entryOf(subject, text)
      if (entry !== undefined) read.push(entry)
      else if (this.#isNewUnreadable(subject, text)) unreadable++
    }
    if (unreadable > 0) {
      const what = { event: 'overrides_unreadable', overrides: unreadable }
      this.#parts.logger.error(what, 'some overrides in Redis cannot be read and are ignored')
    }
    const isAhead = read.some((entry) => (this.#parts.map.entryOf(subjectOf(entry))?.momentMs ?? 0) > entry.momentMs)
    this.#merge(read)
    return isAhead
  }

  async put(epoch: string, entry: NewEntry, expected: string | undefined): Promise<PutResult> {
    const put = unput(entry)
    const isSet = put.kind === 'set'
    if (isSet && put.override.untilMs <= this.wallMs() + NOTICE_MS) throw new ApiError('bad_until', TOO_SOON)
    const reply = await this.#send(epoch, {
      subject: subjectKey(subjectOf(put)),
      id: isSet ? overrideKey(put.override) : undefined,
      untilMs: isSet ? put.override.untilMs : 0,
      text: encodeEntry(put),
      expected,
      delayMs: isSet ? NOTICE_MS : 0,
    })
    if (reply.kind === 'exists') return { kind: 'exists', key: reply.id }
    if (reply.kind === 'full') throw new ApiError('bad_request', TOO_MANY)
    const entryPut = withMoments(put, reply)
    this.#merge([entryPut])
    return { kind: 'put', entry: entryPut }
  }

  /** Returns all entries of the map in the form that Redis stores. */
  kept(): (readonly [subject: string, entry: string])[] {
    return Array.from(this.#parts.map.entries(), (entry) => [subjectKey(subjectOf(entry)), keptText(entry)] as const)
  }

  /** Returns the overrides that are not in force yet, by rising moments. */
  upcoming(nowMs: number): UpcomingOverride[] {
    const upcoming: UpcomingOverride[] = []
    for (const entry of this.#parts.map.entries()) {
      if (entry.kind !== 'set') continue
      const { fromMs } = this.timed(entry.override)
      if (fromMs > nowMs) upcoming.push({ momentMs: entry.momentMs, fromMs })
    }
    return upcoming.sort((a, b) => a.momentMs - b.momentMs)
  }

  /** Redis may return the same entries with every poll, if a failover or somebody's hand has set the number of its last change back. */
  #isNewUnreadable(subject: string, text: string): boolean {
    const digest = createHash('sha256')
      .update(JSON.stringify([subject, text]))
      .digest('base64')
    if (this.#unreadable.has(digest)) return false
    if (this.#unreadable.size >= CONTROL_CAPACITY) this.#unreadable.clear()
    this.#unreadable.add(digest)
    return true
  }

  #merge(entries: readonly OverrideEntry[]): void {
    const { map, clock } = this.#parts
    const wallMs = this.wallMs()
    const nowMs = clock.nowMs()
    for (const { kind, ...entry } of entries as readonly (OverrideEntry & { override?: Override })[]) {
      if (kind !== 'set') continue
      // A time further ahead is from before Redis's clock was set back: moments rise even then.
      const inTimeMs = nowMs + Math.min(entry.override!.sinceMs - wallMs, NOTICE_MS)
      const fromMs = this.#isServing ? Math.max(inTimeMs, nowMs + LATE_NOTICE_MS) : inTimeMs
      this.#fromMs.set(entry.override!, fromMs)
    }
    map.merge(entries, wallMs)
    map.prune(wallMs)
  }

  async #send(epoch: string, put: Parameters<ControlScript['put']>[1]): ReturnType<ControlScript['put']> {
    try {
      return await this.#parts.script.put(epoch, put)
    } catch (error) {
      if (!(error instanceof LinkError)) throw error
      throw new ApiError('store_unavailable', failureText(error))
    }
  }
}

function failureText({ outcome, message }: LinkError): string {
  if (outcome !== 'unknown') return `nothing was changed, because Redis did not accept it: ${message}`
  return `it is unknown whether Redis has it: ${message}. List the overrides before you try again`
}

/** Returns undefined if the entry is damaged or was written by a newer program. */
function entryOf(subject: string, text: string): OverrideEntry | undefined {
  const kept = readControlEntry(text)
  const entry = kept && decodeEntry(kept.text)
  return entry !== undefined && subjectKey(subjectOf(entry)) === subject ? withMoments(entry, kept!) : undefined
}

function keptText(entry: OverrideEntry): string {
  const { momentMs, forgetMs } = entry
  const [id, untilMs] = entry.kind === 'set' ? [overrideKey(entry.override), entry.override.untilMs] : [undefined, 0]
  return controlEntryText({ momentMs, forgetMs, untilMs, id, text: encodeEntry(entry) })
}

/** Returns an entry without moments, which Redis assigns. */
function unput(entry: NewEntry): OverrideEntry {
  const moments = { momentMs: 0, forgetMs: 0 }
  if (entry.kind === 'ended') return { kind: 'ended', ...moments, ...entry.end }
  return { kind: 'set', ...moments, override: { ...entry.override, sinceMs: 0 } }
}

function withMoments(entry: OverrideEntry, { momentMs, forgetMs }: Pick<ControlEntry, 'momentMs' | 'forgetMs'>): OverrideEntry {
  if (entry.kind === 'ended') return { ...entry, momentMs, forgetMs }
  return { ...entry, momentMs, forgetMs, override: { ...entry.override, sinceMs: momentMs } }
}
