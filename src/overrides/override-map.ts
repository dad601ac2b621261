import {
  type EndedEntry,
  type Override,
  type OverrideChange,
  type OverrideEntry,
  type OverrideSubject,
  type SetEntry,
  subjectKey,
  subjectOf,
  type TimedOverride,
} from './override.ts'

/** Overrides that are neither over nor ended, of one instance or fleet. */
export const MAX_OVERRIDES = 1000

/** The later entry of a subject, which took the place of an earlier one. */
export interface EntryChange {
  readonly before: OverrideEntry | undefined
  readonly after: OverrideEntry
}

/**
 * All overrides of an instance or a fleet, as a last-writer-wins map with tombstones. Each subject has one entry, an override or the
 * tombstone of one that was ended, and of two entries the one that was put later wins. Maps merge: however often and in whatever order
 * entries come, those who know the same entries have the same map.
 */
export class OverrideMap {
  readonly #entries = new Map<string, OverrideEntry>()
  readonly #onChange: (changes: readonly EntryChange[]) => void

  /** `onChange`: called after each merge that changed anything. */
  constructor(onChange: (changes: readonly EntryChange[]) => void = () => {}) {
    this.#onChange = onChange
  }

  get size(): number {
    return this.#entries.size
  }

  entries(): Iterable<OverrideEntry> {
    return this.#entries.values()
  }

  entryOf(subject: OverrideSubject): OverrideEntry | undefined {
    return this.#entries.get(subjectKey(subject))
  }

  /** The override of this subject that is neither over nor ended. */
  overrideOf(subject: OverrideSubject, wallMs: number): Override | undefined {
    const entry = this.entryOf(subject)
    return isOpen(entry, wallMs) ? entry.override : undefined
  }

  /** The override with this id that is neither over nor ended. */
  find(id: string, wallMs: number): Override | undefined {
    return this.list(wallMs).find((override) => override.id === id)
  }

  /** Those that are neither over nor ended, the oldest first. */
  list(wallMs: number): Override[] {
    const open = [...this.#entries.values()].filter((entry): entry is SetEntry => isOpen(entry, wallMs))
    return open.sort((a, b) => a.momentMs - b.momentMs).map(({ override }) => override)
  }

  /** Takes over the entries that win over its own. Those that nobody has to remember any more are left out. */
  merge(entries: Iterable<OverrideEntry>, wallMs: number): void {
    const changes: EntryChange[] = []
    for (const after of entries) {
      const key = subjectKey(subjectOf(after))
      const before = this.#entries.get(key)
      if (after.forgetMs <= wallMs || (before !== undefined && !isLater(after, before))) continue
      this.#entries.set(key, after)
      changes.push({ before, after })
    }
    if (changes.length > 0) this.#onChange(changes)
  }

  /** Removes the entries, tombstones among them, that nobody has to remember any more. */
  prune(wallMs: number): void {
    for (const [key, { forgetMs }] of this.#entries) if (forgetMs <= wallMs) this.#entries.delete(key)
  }

  /** Removes an entry at once. A map that merges with no other needs no tombstones. */
  forget(subject: OverrideSubject): void {
    this.#entries.delete(subjectKey(subject))
  }
}

/** Whether `a` was written last. A total order, so that all maps choose the same entry: at the same moment a tombstone wins. */
function isLater(a: OverrideEntry, b: OverrideEntry): boolean {
  if (a.momentMs !== b.momentMs) return a.momentMs > b.momentMs
  if (a.kind !== b.kind) return a.kind === 'ended'
  return encodeEntry(a) > encodeEntry(b)
}

function isOpen(entry: OverrideEntry | undefined, wallMs: number): entry is SetEntry {
  return entry?.kind === 'set' && entry.override.untilMs > wallMs
}

/** Of an entry as text, in UTF-8. */
export const MAX_ENTRY_BYTES = 4096

const VERSION = 1

/** An entry as JSON, on one line. */
export function encodeEntry(entry: OverrideEntry): string {
  const { kind, momentMs, forgetMs } = entry
  const times = { v: VERSION, moment: momentMs, forget: forgetMs }
  if (kind === 'ended') {
    const { id, subject, actor, reason } = entry
    return JSON.stringify({ ...times, ended: id, subject, actor, reason })
  }
  const { id, subject, change, sinceMs, untilMs, createdMs, actor, reason } = entry.override
  return JSON.stringify({ ...times, id, subject, change, since: sinceMs, until: untilMs, created: createdMs, actor, reason })
}

/** Undefined for anything that this program would not have written: damaged, or from a newer one. Never throws. */
export function decodeEntry(text: string): OverrideEntry | undefined {
  if (text.length > MAX_ENTRY_BYTES) return undefined
  const members = objectOf(text)
  if (members?.['v'] !== VERSION) return undefined
  const { moment: momentMs, forget: forgetMs, ended, actor, reason } = members
  const subject = decodeSubject(members['subject'])
  if (!isTime(momentMs) || !isTime(forgetMs) || subject === undefined || !isText(actor) || !isText(reason)) return undefined
  if (ended !== undefined) return isText(ended) ? { kind: 'ended', momentMs, forgetMs, id: ended, subject, actor, reason } : undefined
  const override = decodeOverride(members, { subject, actor, reason })
  return override && { kind: 'set', momentMs, forgetMs, override }
}

/** Whether it is an entry that a newer program has written. */
export function isNewerEntry(text: string): boolean {
  const version = objectOf(text)?.['v']
  return typeof version === 'number' && version > VERSION
}

function decodeOverride(members: Members, known: Pick<Override, 'subject' | 'actor' | 'reason'>): Override | undefined {
  const { id, since: sinceMs, until: untilMs, created: createdMs } = members
  const change = decodeChange(members['change'])
  if (!isText(id) || !isTime(sinceMs) || !isTime(untilMs) || !isTime(createdMs) || change === undefined) return undefined
  if ((known.subject === 'all_policies') !== (change.kind === 'shadow')) return undefined
  return { id, ...known, change, sinceMs, untilMs, createdMs }
}

function decodeSubject(value: unknown): OverrideSubject | undefined {
  if (value === 'all_policies') return value
  if (!isObject(value)) return undefined
  const { policy, rule, values } = value
  if (!isText(policy) || !isText(rule)) return undefined
  if (values === undefined) return { policy, rule, values }
  return isObject(values) && Object.values(values).every(isText) ? { policy, rule, values: values as Record<string, string> } : undefined
}

function decodeChange(value: unknown): OverrideChange | undefined {
  if (!isObject(value)) return undefined
  const { kind, factor, fields } = value
  if (kind === 'multiply') return typeof factor === 'number' && factor > 0 ? { kind, factor } : undefined
  if (kind === 'set') return isObject(fields) ? { kind, fields } : undefined
  return kind === 'unlimited' || kind === 'block' || kind === 'shadow' ? { kind } : undefined
}

type Members = Readonly<Record<string, unknown>>

function objectOf(text: string): Members | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return isObject(value) ? value : undefined
  } catch {
    return undefined
  }
}

function isObject(value: unknown): value is Members {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function isText(value: unknown): value is string {
  return typeof value === 'string'
}

/** As dates can have it. */
function isTime(value: unknown): value is number {
  return typeof value === 'number' && Math.abs(value) <= 8.64e15
}

/**
 * Where the entries of an override map are kept: in the state file of an instance, or in Redis for a fleet. It merges into the map what was
 * kept from before and what others put there.
 */
export interface OverrideStorage {
  /** Resolves when the map has what is kept, or when that cannot be known now. */
  start(): Promise<void>
  /**
   * Puts an entry in the place of the override that must be there now, and merges it into the map. It gives the entry its moments.
   * `expected`: the id of the override that is neither over nor ended; undefined: there must be none. Resolves when the entry is kept, if it
   * can be. Throws an ApiError where nothing was changed.
   */
  put(entry: NewEntry, expected: string | undefined): Promise<PutResult>
  /** Its times on the monotonic clock of this process. */
  timed(override: Override): TimedOverride
  /** Unix time by the clock that the times of entries are on. */
  wallMs(): number
  /** Whether it is kept over a restart. */
  isDurable(override: Override): boolean
  close(): Promise<void>
}

/** An entry before the storage gave it its moments. */
export type NewEntry =
  | { readonly kind: 'set'; readonly override: Omit<Override, 'sinceMs'> }
  | { readonly kind: 'ended'; readonly end: Omit<EndedEntry, 'kind' | 'momentMs' | 'forgetMs'> }

/** `exists`: nothing was changed, because another override is there (its id), or none. */
export type PutResult =
  | { readonly kind: 'put'; readonly entry: OverrideEntry }
  | { readonly kind: 'exists'; readonly id: string | undefined }
