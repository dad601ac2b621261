import type { Override, OverrideSubject } from './override.ts'
import { encodeEntry } from './override-codec.ts'
import { type OverrideEntry, type SetEntry, subjectKey, subjectOf } from './override-entry.ts'

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
