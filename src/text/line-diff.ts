/** One line of a difference: in both texts, only in the first, or only in the second. */
type EditKind = ' ' | '-' | '+'

/** More edits than anybody reads; what is kept of the search grows with their square, to 16 MB. */
const MAX_EDITS = 2000
/** Bounds the comparisons of lines, for texts that have the same lines in many places. */
const MAX_STEPS = 20_000_000
const CONTEXT_LINES = 3

/**
 * The difference of two texts as a unified diff; empty where they are the same. Undefined where they differ so much that it is not worth
 * showing. Time: the lines of both texts, and for each edit at most the lines between the first and the last difference.
 */
export function unifiedDiff(before: string, after: string, names: readonly [before: string, after: string]): string | undefined {
  const [old, fresh] = [linesOf(before), linesOf(after)]
  const edits = editsOf(...numbered(old, fresh))
  if (edits === undefined) return undefined
  const hunks = hunksOf(edits)
  if (hunks.length === 0) return ''
  return `--- ${names[0]}\n+++ ${names[1]}\n${hunks.map((hunk) => hunkText(hunk, old, fresh)).join('')}`
}

/** A last line without its end is another line than one with it. */
const NO_END = '\n\\ No newline at end of file'

function linesOf(text: string): string[] {
  const lines = text.split('\n')
  const last = lines.pop()!
  if (last !== '') lines.push(last + NO_END)
  return lines
}

/** The same number for the same line. */
function numbered(old: readonly string[], fresh: readonly string[]): [old: Int32Array, fresh: Int32Array] {
  const numbers = new Map<string, number>()
  const numberOf = (line: string): number => {
    let number = numbers.get(line)
    if (number === undefined) {
      number = numbers.size
      numbers.set(line, number)
    }
    return number
  }
  return [Int32Array.from(old, numberOf), Int32Array.from(fresh, numberOf)]
}

/** Lines that follow each other and have the same kind. `old` and `fresh` are the numbers of the first ones, from 0. */
interface Run {
  readonly kind: EditKind
  readonly old: number
  readonly fresh: number
  count: number
}

/** The shortest way from one text to the other. */
function editsOf(old: Int32Array, fresh: Int32Array): Run[] | undefined {
  let start = 0
  while (start < old.length && start < fresh.length && old[start] === fresh[start]) start++
  let [oldEnd, freshEnd] = [old.length, fresh.length]
  while (oldEnd > start && freshEnd > start && old[oldEnd - 1] === fresh[freshEnd - 1]) {
    oldEnd--
    freshEnd--
  }
  const kinds = shortestEdits(old.subarray(start, oldEnd), fresh.subarray(start, freshEnd))
  if (kinds === undefined) return undefined
  const runs: Run[] = []
  const position = { old: 0, fresh: 0 }
  const add = (kind: EditKind, count: number): void => {
    if (count === 0) return
    const last = runs.at(-1)
    if (last?.kind === kind) last.count += count
    else runs.push({ kind, ...position, count })
    if (kind !== '+') position.old += count
    if (kind !== '-') position.fresh += count
  }
  add(' ', start)
  for (const kind of kinds) add(kind, 1)
  add(' ', old.length - oldEnd)
  return runs
}

/** E. Myers, "An O(ND) difference algorithm and its variations", 1986: the furthest that each number of edits reaches on each diagonal. */
function shortestEdits(old: Int32Array, fresh: Int32Array): EditKind[] | undefined {
  const [oldCount, freshCount] = [old.length, fresh.length]
  const most = Math.min(oldCount + freshCount, MAX_EDITS)
  const reached = new Int32Array(2 * most + 3)
  const zero = most + 1
  const trace: Int32Array[] = []
  let steps = 0
  for (let edits = 0; edits <= most; edits++) {
    trace.push(reached.slice(zero - edits - 1, zero + edits + 2))
    for (let diagonal = -edits; diagonal <= edits; diagonal += 2) {
      const isDown = diagonal === -edits || (diagonal !== edits && reached[zero + diagonal - 1]! < reached[zero + diagonal + 1]!)
      let x = isDown ? reached[zero + diagonal + 1]! : reached[zero + diagonal - 1]! + 1
      let y = x - diagonal
      while (x < oldCount && y < freshCount && old[x] === fresh[y]) {
        x++
        y++
        steps++
      }
      reached[zero + diagonal] = x
      if (x >= oldCount && y >= freshCount) return wayBack(trace, oldCount, freshCount)
    }
    if (steps > MAX_STEPS) return undefined
  }
  return undefined
}

function wayBack(trace: readonly Int32Array[], oldCount: number, freshCount: number): EditKind[] {
  const kinds: EditKind[] = []
  let [x, y] = [oldCount, freshCount]
  for (let edits = trace.length - 1; edits >= 0; edits--) {
    const reached = trace[edits]!
    const at = (diagonal: number): number => reached[diagonal + edits + 1]!
    const diagonal = x - y
    const isDown = diagonal === -edits || (diagonal !== edits && at(diagonal - 1) < at(diagonal + 1))
    const fromX = edits === 0 ? 0 : at(isDown ? diagonal + 1 : diagonal - 1)
    const fromY = edits === 0 ? 0 : fromX - (isDown ? diagonal + 1 : diagonal - 1)
    const [startX, startY] = edits === 0 ? [0, 0] : isDown ? [fromX, fromY + 1] : [fromX + 1, fromY]
    for (; x > startX && y > startY; x--, y--) kinds.push(' ')
    if (edits > 0) kinds.push(isDown ? '+' : '-')
    ;[x, y] = [fromX, fromY]
  }
  return kinds.reverse()
}

/** Runs that are shown together, with a few lines around them. */
function hunksOf(runs: readonly Run[]): Run[][] {
  const hunks: Run[][] = []
  let hunk: Run[] = []
  for (const [i, run] of runs.entries()) {
    if (run.kind !== ' ') {
      hunk.push(run)
      continue
    }
    const [isFirst, isLast] = [hunk.length === 0, i === runs.length - 1]
    if (!isFirst && !isLast && run.count <= 2 * CONTEXT_LINES) {
      hunk.push(run)
      continue
    }
    if (!isFirst) {
      hunks.push([...hunk, { ...run, count: Math.min(run.count, CONTEXT_LINES) }])
      hunk = []
    }
    const skipped = Math.max(0, run.count - CONTEXT_LINES)
    if (!isLast) hunk = [{ ...run, old: run.old + skipped, fresh: run.fresh + skipped, count: run.count - skipped }]
  }
  if (hunk.some(({ kind }) => kind !== ' ')) hunks.push(hunk)
  return hunks
}

function hunkText(hunk: readonly Run[], old: readonly string[], fresh: readonly string[]): string {
  const count = (without: EditKind): number => hunk.reduce((sum, run) => sum + (run.kind === without ? 0 : run.count), 0)
  const [first] = hunk as readonly [Run, ...Run[]]
  const lines = hunk.map((run) => {
    const from = run.kind === '+' ? fresh.slice(run.fresh, run.fresh + run.count) : old.slice(run.old, run.old + run.count)
    return from.map((line) => `${run.kind}${line}\n`).join('')
  })
  return `@@ -${rangeText(first.old, count('+'))} +${rangeText(first.fresh, count('-'))} @@\n${lines.join('')}`
}

/** Lines count from 1; a range without lines is named by the line before it. */
function rangeText(start: number, count: number): string {
  return `${count === 0 ? start : start + 1},${count}`
}
