import type { Override, OverrideSubject } from './override.ts'
import { encodeEntry } from './override-codec.ts'
import { type OverrideEntry, type SetEntry, subjectKey, subjectOf } from './override-entry.ts'

/** Overrides that are neither over nor ended, of one instance or fleet. */
export const MAX_OVERRIDES = 1000

/** An entry that took the place of another. */
export interface EntryChange {
  readonly before: OverrideEntry | undefined
  readonly after: OverrideEntry
}

/**
 * All overrides of an instance or a fleet: an entry for each subject, the latest that is known. Books merge: however often and in whatever
 * order entries come, those who know the same entries have the same book.
 */
export class OverrideBook {
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

  /** Takes over what is later than what it has. Entries that nobody has to remember any more are left out. */
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

  /** Removes what nobody has to remember any more. */
  prune(wallMs: number): void {
    for (const [key, { forgetMs }] of this.#entries) if (forgetMs <= wallMs) this.#entries.delete(key)
  }

  /** For a book that merges with no other: an end need not be remembered. */
  forget(subject: OverrideSubject): void {
    this.#entries.delete(subjectKey(subject))
  }
}

/** A total order, so that all who know the same entries choose the same one: at the same moment an end wins. */
function isLater(a: OverrideEntry, b: OverrideEntry): boolean {
  if (a.momentMs !== b.momentMs) return a.momentMs > b.momentMs
  if (a.kind !== b.kind) return a.kind === 'ended'
  return encodeEntry(a) > encodeEntry(b)
}

function isOpen(entry: OverrideEntry | undefined, wallMs: number): entry is SetEntry {
  return entry?.kind === 'set' && entry.override.untilMs > wallMs
}
