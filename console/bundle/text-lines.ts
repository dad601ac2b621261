import { differenceSteps } from '../../src/text/line-diff.ts'

/** A row of a text or of a difference. */
export interface TextLine {
  /** Line number in the text or, in a difference, in each of the two texts; undefined where the row is in neither, or continues a line. */
  readonly before: number | undefined
  readonly after: number | undefined
  /** `…` stands for lines that are left out because they are the same. */
  readonly kind: ' ' | '-' | '+' | '…'
  readonly text: string
}

export interface TextLines {
  readonly lines: readonly TextLine[]
  /** Characters of the longest row. */
  readonly width: number
  /** The highest line number. */
  readonly lastNumber: number
  /** Whether there are more lines than a page can show. */
  readonly isCut: boolean
}

/** Longer lines continue in the next row: a browser needs very long for a line of a million characters. */
const MAX_ROW_CHARACTERS = 400
/** Browsers do not draw what is higher than some ten million pixels. */
const MAX_ROWS = 500_000
const ROWS_A_SLICE = 5000

/** Splits a text into rows. */
export function* textLines(text: string): Generator<void, TextLines> {
  const rows = new Rows()
  let number = 0
  for (let from = 0; from < text.length && !rows.isFull; ) {
    const end = text.indexOf('\n', from)
    const line = text.slice(from, end < 0 ? text.length : end)
    number++
    yield* rows.add(' ', line.endsWith('\r') ? line.slice(0, -1) : line, number, number)
    from = end < 0 ? text.length : end + 1
  }
  return rows.done()
}

/** Finds the lines that differ between two texts; undefined if there are too many. */
export function* differentLines(before: string, after: string): Generator<void, TextLines | undefined> {
  const difference = yield* differenceSteps(before, after)
  if (difference === undefined) return undefined
  const { old, fresh, hunks } = difference
  const rows = new Rows()
  for (const hunk of hunks) {
    const [first] = hunk
    if (first !== undefined && first.old + first.fresh > 0) yield* rows.add('…', '', undefined, undefined)
    for (const { kind, old: oldFrom, fresh: freshFrom, count } of hunk) {
      for (let i = 0; i < count; i++) {
        const text = kind === '+' ? fresh[freshFrom + i]! : old[oldFrom + i]!
        yield* rows.add(kind, text, kind === '+' ? undefined : oldFrom + i + 1, kind === '-' ? undefined : freshFrom + i + 1)
      }
    }
  }
  return rows.done()
}

class Rows {
  readonly #lines: TextLine[] = []
  #width = 0
  #lastNumber = 0

  get isFull(): boolean {
    return this.#lines.length >= MAX_ROWS
  }

  *add(kind: TextLine['kind'], text: string, before: number | undefined, after: number | undefined): Generator<void, void> {
    this.#push({ kind, text: text.slice(0, MAX_ROW_CHARACTERS), before, after })
    for (let at = MAX_ROW_CHARACTERS; at < text.length && !this.isFull; at += MAX_ROW_CHARACTERS) {
      this.#push({ kind, text: text.slice(at, at + MAX_ROW_CHARACTERS), before: undefined, after: undefined })
      if (this.#lines.length % ROWS_A_SLICE === 0) yield
    }
    if (this.#lines.length % ROWS_A_SLICE === 0) yield
  }

  done(): TextLines {
    return { lines: this.#lines, width: this.#width, lastNumber: this.#lastNumber, isCut: this.isFull }
  }

  #push(line: TextLine): void {
    this.#lines.push(line)
    this.#width = Math.max(this.#width, line.text.length)
    this.#lastNumber = Math.max(this.#lastNumber, line.before ?? 0, line.after ?? 0)
  }
}
