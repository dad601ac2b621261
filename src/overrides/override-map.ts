import {
  type EndedEntry,
  type Override,
  type OverrideChange,
  type OverrideEdit,
  type OverrideEntry,
  type OverrideSubject,
  type SetEntry,
  subjectKey,
  subjectOf,
  type TimedOverride,
} from './override.ts'

/** The most overrides, not counting expired or ended ones, that an instance or fleet may have. */
export const MAX_OVERRIDES = 1000

/** A change of a subject's entry: `after` replaced `before`. */
export interface EntryChange {
  readonly before: OverrideEntry | undefined
  readonly after: OverrideEntry
}

/**
 * All overrides of an instance or a fleet, as a last-writer-wins map with tombstones. Each subject has one entry, an override or the tombstone of one that
 * was ended; of two entries the later one wins. Merging is idempotent and independent of order: maps that have seen the same entries are equal.
 */
export class OverrideMap {
  readonly #entries = new Map<string, OverrideEntry>()
  readonly #onChange: (changes: readonly EntryChange[]) => void

  /** `onChange` is called after each merge that changed anything. */
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

  /** Returns the override of this subject unless it has expired or was ended. */
  overrideOf(subject: OverrideSubject, wallMs: number): Override | undefined {
    const entry = this.entryOf(subject)
    return isOpen(entry, wallMs) ? entry.override : undefined
  }

  /** Returns the override with this id unless it has expired or was ended. */
  find(id: string, wallMs: number): Override | undefined {
    return this.list(wallMs).find((override) => override.id === id)
  }

  /** Returns the overrides that have neither expired nor been ended, oldest first. */
  list(wallMs: number): Override[] {
    const open = [...this.#entries.values()].filter((entry): entry is SetEntry => isOpen(entry, wallMs))
    return open.sort((a, b) => a.momentMs - b.momentMs).map(({ override }) => override)
  }

  /** Adopts the entries that are later than its own, except those that no longer need to be remembered. */
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

  /** Removes all entries, including tombstones, that no longer need to be remembered. */
  prune(wallMs: number): void {
    for (const [key, { forgetMs }] of this.#entries) if (forgetMs <= wallMs) this.#entries.delete(key)
  }

  /** Removes an entry at once. A map that is never merged with another needs no tombstones. */
  forget(subject: OverrideSubject): void {
    this.#entries.delete(subjectKey(subject))
  }
}

/** Whether `a` was put later. This is a total order, so that all maps choose the same entry: at the same moment, a tombstone wins. */
function isLater(a: OverrideEntry, b: OverrideEntry): boolean {
  if (a.momentMs !== b.momentMs) return a.momentMs > b.momentMs
  if (a.kind !== b.kind) return a.kind === 'ended'
  return encodeEntry(a) > encodeEntry(b)
}

function isOpen(entry: OverrideEntry | undefined, wallMs: number): entry is SetEntry {
  return entry?.kind === 'set' && entry.override.untilMs > wallMs
}

/** The largest encoded entry, in bytes of UTF-8. */
export const MAX_ENTRY_BYTES = 4096

const VERSION = 1

/** Encodes an entry as one line of JSON. */
export function encodeEntry(entry: OverrideEntry): string {
  const { kind, momentMs, forgetMs } = entry
  const times = { v: VERSION, moment: momentMs, forget: forgetMs }
  if (kind === 'ended') {
    const { id, subject, actor, reason } = entry
    return JSON.stringify({ ...times, ended: id, subject, actor, reason })
  }
  const { id, subject, change, sinceMs, untilMs, createdMs, actor, reason, edit } = entry.override
  const edited = edit && { version: edit.version, actor: edit.actor, reason: edit.reason, at: edit.atMs }
  return JSON.stringify({ ...times, id, subject, change, since: sinceMs, until: untilMs, created: createdMs, actor, reason, edit: edited })
}

/** Returns undefined for anything that this version would not have written: damaged text, or an entry of a newer version. Never throws. */
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

/** Whether a newer version of the program wrote this entry. */
export function isNewerEntry(text: string): boolean {
  const version = objectOf(text)?.['v']
  return typeof version === 'number' && version > VERSION
}

function decodeOverride(members: Members, known: Pick<Override, 'subject' | 'actor' | 'reason'>): Override | undefined {
  const { id, since: sinceMs, until: untilMs, created: createdMs } = members
  const change = decodeChange(members['change'])
  if (!isText(id) || !isTime(sinceMs) || !isTime(untilMs) || !isTime(createdMs) || change === undefined) return undefined
  if ((known.subject === 'all_policies') !== (change.kind === 'shadow')) return undefined
  const override = { id, ...known, change, sinceMs, untilMs, createdMs }
  // Entries of earlier versions do not have the member.
  if (members['edit'] === undefined) return override
  const edit = decodeEdit(members['edit'])
  return edit && { ...override, edit }
}

function decodeEdit(value: unknown): OverrideEdit | undefined {
  if (!isObject(value)) return undefined
  const { version, actor, reason, at: atMs } = value
  return isText(version) && isText(actor) && isText(reason) && isTime(atMs) ? { version, actor, reason, atMs } : undefined
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
  const { kind, factor, fields, cutsStreams } = value
  if (kind === 'multiply') return typeof factor === 'number' && factor > 0 ? { kind, factor } : undefined
  if (kind === 'set') return isObject(fields) ? { kind, fields } : undefined
  // Entries of earlier versions do not have the member.
  if (kind === 'block') return cutsStreams === true ? { kind, cutsStreams } : { kind }
  return kind === 'unlimited' || kind === 'shadow' ? { kind } : undefined
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

/** The range is that of a JavaScript Date. */
function isTime(value: unknown): value is number {
  return typeof value === 'number' && Math.abs(value) <= 8.64e15
}

/**
 * Keeps the entries of an override map, in an instance's state file or, for a fleet, in Redis. The storage merges into the map what was kept
 * earlier and what other instances put there.
 */
export interface OverrideStorage {
  /** Resolves when the map contains what is kept, or when that cannot be read for now. */
  start(): Promise<void>
  /**
   * Replaces the subject's current override by an entry, assigns the entry its moments and merges it into the map. `expected` is the key of the current
   * override, one that has neither expired nor been ended; undefined means that there must be none. Resolves once the entry is kept, if it can be. Rejects
   * if nothing was changed.
   */
  put(entry: NewEntry, expected: string | undefined): Promise<PutResult>
  /** Converts the override's times to the monotonic clock of this process. */
  timed(override: Override): TimedOverride
  /** Unix time in milliseconds, by the clock of the entries' times. */
  wallMs(): number
  /** Whether the override survives a restart. */
  isDurable(override: Override): boolean
  close(): Promise<void>
}

/** An entry to which the storage has not yet assigned its moments. */
export type NewEntry =
  | { readonly kind: 'set'; readonly override: Omit<Override, 'sinceMs'> }
  | { readonly kind: 'ended'; readonly end: Omit<EndedEntry, 'kind' | 'momentMs' | 'forgetMs'> }

/** `exists` means that nothing was changed, because the current override is another one, with this key, or there is none. */
export type PutResult =
  | { readonly kind: 'put'; readonly entry: OverrideEntry }
  | { readonly kind: 'exists'; readonly key: string | undefined }
