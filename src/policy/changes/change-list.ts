export type ChangeKind = 'added' | 'removed' | 'changed'

export interface ChangeCounts {
  readonly added: number
  readonly removed: number
  readonly changed: number
  readonly unchanged: number
}

/** Of each kind, so that thousands of one do not hide those of another. */
const MAX_LISTED = 200
const MAX_LINES = 500

/** Counts changes, and lists the first of each kind: those that are changed, then removed, then added. */
export class ChangeList<Change extends object> {
  readonly counts = { added: 0, removed: 0, changed: 0, unchanged: 0 }
  readonly #lists: Record<ChangeKind, { readonly changes: (Change & { readonly kind: ChangeKind })[]; lines: number }> = {
    changed: { changes: [], lines: 0 },
    removed: { changes: [], lines: 0 },
    added: { changes: [], lines: 0 },
  }
  isComplete = true

  get listed(): (Change & { readonly kind: ChangeKind })[] {
    return Object.values(this.#lists).flatMap(({ changes }) => changes)
  }

  /** `lines`: how long it is. */
  note(kind: ChangeKind, change: Change, lines: number): void {
    const list = this.#lists[kind]
    this.counts[kind]++
    if ('left_out' in change && change.left_out !== 0) this.isComplete = false
    if (list.changes.length < MAX_LISTED && list.lines < MAX_LINES) {
      list.changes.push({ kind, ...change })
      list.lines += lines
    } else {
      this.isComplete = false
    }
  }

  noteUnchanged(): void {
    this.counts.unchanged++
  }
}
