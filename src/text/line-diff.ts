/** One line of a difference: in both texts, only in the first, or only in the second. */
type EditKind = ' ' | '-' | '+'

/** Lines that follow each other and have the same kind. `old` and `fresh` are the numbers of the first ones, from 0. */
interface Run {
  readonly kind: EditKind
  readonly old: number
  readonly fresh: number
  count: number
}

/** The lines of two texts and what differs. */
export interface LineDifference {
  readonly old: readonly string[]
  readonly fresh: readonly string[]
  /** Runs that are shown together, with a few lines around them. Empty where the texts are the same. */
  readonly hunks: readonly (readonly Run[])[]
}

/** More edits than anybody reads; what is kept of the search grows with their square, to 16 MB. */
const MAX_EDITS = 2000
/** Bounds the comparisons of lines, for texts that have the same lines in many places. */
const MAX_STEPS = 20_000_000
const CONTEXT_LINES = 3
/** Lines or comparisons between two pauses, which are some milliseconds of work. */
const STEPS_A_SLICE = 50_000

/**
 * The difference of two texts as a unified diff; empty where they are the same. Undefined where they differ so much that it is not worth
 * showing. Time: the lines of both texts, and for each edit at most the lines between the first and the last difference.
 */
export function unifiedDiff(before: string, after: string, names: readonly [before: string, after: string]): string | undefined {
  const steps = differenceSteps(before, after)
  let step = steps.next()
  while (!step.done) step = steps.next()
  if (step.value === undefined) return undefined
  const { old, fresh, hunks } = step.value
  if (hunks.length === 0) return ''
  return `--- ${names[0]}\n+++ ${names[1]}\n${hunks.map((hunk) => hunkText(hunk, old, fresh)).join('')}`
}

/** Finds the same difference with pauses, for a thread that has other things to do. */
export function* differenceSteps(before: string, after: string): Generator<void, LineDifference | undefined> {
  const old = yield* linesOf(before)
  const fresh = yield* linesOf(after)
  const edits = yield* editsOf(...(yield* numbered(old, fresh)))
  return edits && { old, fresh, hunks: hunksOf(edits) }
}

/** A last line without its end is another line than one with it. */
const NO_END = '\n\\ No newline at end of file'

function* linesOf(text: string): Generator<void, string[]> {
  const lines: string[] = []
  let from = 0
  for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n', from)) {
    lines.push(text.slice(from, end))
    from = end + 1
    if (lines.length % STEPS_A_SLICE === 0) yield
  }
  if (from < text.length) lines.push(text.slice(from) + NO_END)
  return lines
}

/** The same number for the same line. */
function* numbered(...texts: [old: readonly string[], fresh: readonly string[]]): Generator<void, [old: Int32Array, fresh: Int32Array]> {
  const known = new Map<string, number>()
  const found: [old: Int32Array, fresh: Int32Array] = [new Int32Array(texts[0].length), new Int32Array(texts[1].length)]
  for (const [i, lines] of texts.entries()) {
    for (let place = 0; place < lines.length; place++) {
      const line = lines[place]!
      const number = known.get(line) ?? known.size
      if (number === known.size) known.set(line, number)
      found[i as 0 | 1][place] = number
      if (place % STEPS_A_SLICE === STEPS_A_SLICE - 1) yield
    }
  }
  return found
}

/** The shortest way from one text to the other. */
function* editsOf(old: Int32Array, fresh: Int32Array): Generator<void, Run[] | undefined> {
  let start = 0
  while (start < old.length && start < fresh.length && old[start] === fresh[start]) start++
  let [oldEnd, freshEnd] = [old.length, fresh.length]
  while (oldEnd > start && freshEnd > start && old[oldEnd - 1] === fresh[freshEnd - 1]) {
    oldEnd--
    freshEnd--
  }
  const kinds = yield* shortestEdits(old.subarray(start, oldEnd), fresh.subarray(start, freshEnd))
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
function* shortestEdits(old: Int32Array, fresh: Int32Array): Generator<void, EditKind[] | undefined> {
  const [oldCount, freshCount] = [old.length, fresh.length]
  const most = Math.min(oldCount + freshCount, MAX_EDITS)
  const reached = new Int32Array(2 * most + 3)
  const zero = most + 1
  const trace: Int32Array[] = []
  let steps = 0
  let work = 0
  for (let edits = 0; edits <= most; edits++) {
    trace.push(reached.slice(zero - edits - 1, zero + edits + 2))
    const stepsBefore = steps
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
    work += edits + steps - stepsBefore
    if (work < STEPS_A_SLICE) continue
    work = 0
    yield
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
