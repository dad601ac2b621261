import { DocumentNodes } from './document-nodes.ts'
import type { Path } from './problem.ts'

/** A position in a text as editors count it, from 1. A column is one UTF-16 code unit, so a tab counts as one. */
export interface TextPosition {
  readonly line: number
  readonly column: number
}

/** Some 100 MB of memory. A bundle of ten thousand policies has about 600,000; in one of millions, what is wrong further on is at what contains it. */
const MAX_NODES = 1_000_000

/**
 * Where the values at these paths are in a valid document: a member of an object is at its key, an item of a list at its value, and what is
 * written once and used through aliases is where it is written. A value that is missing is at what should contain it. Each value of the
 * document is looked at once or twice, however many paths there are.
 */
export function positionsOf(text: string, format: 'json' | 'yaml', paths: readonly Path[], maxNodes = MAX_NODES): TextPosition[] {
  const document = new DocumentNodes(text, format, maxNodes)
  const offsets = new Float64Array(paths.length)
  if (document.nodes.length > 0) find(document, 0, document.nodes[0]!.start, wantedOf(paths), offsets)
  return positionsAt(text, offsets)
}

/** The positions that are asked for in one value: of itself, and of values in it. */
interface Wanted {
  readonly numbers: number[]
  readonly inside: Map<string | number, Wanted>
}

function wantedOf(paths: readonly Path[]): Wanted {
  const root: Wanted = { numbers: [], inside: new Map() }
  for (const [number, path] of paths.entries()) {
    let wanted = root
    wanted.numbers.push(number)
    for (const step of path as readonly (string | number)[]) {
      let next = wanted.inside.get(step)
      if (next === undefined) {
        next = { numbers: [], inside: new Map() }
        wanted.inside.set(step, next)
      }
      next.numbers.push(number)
      wanted = next
    }
  }
  return root
}

/** Notes for each path the deepest value that there is: what is found later is deeper. */
function find(document: DocumentNodes, node: number, offset: number, { numbers, inside }: Wanted, offsets: Float64Array): void {
  for (const number of numbers) offsets[number] = offset
  if (inside.size === 0) return
  const resolved = document.resolved(node)
  const { kind } = document.nodes[resolved]!
  if (kind === 'object') {
    for (const { name, key, value } of document.members(resolved)) {
      const wanted = inside.get(name)
      if (wanted !== undefined) find(document, value, document.nodes[key]!.start, wanted, offsets)
    }
  } else if (kind === 'list') {
    let index = 0
    for (const item of document.children(resolved)) {
      const wanted = inside.get(index++)
      if (wanted !== undefined) find(document, item, document.nodes[item]!.start, wanted, offsets)
    }
  }
}

/** One pass over the text, in the order of the offsets. A line ends with LF, CR LF or CR. */
function positionsAt(text: string, offsets: Float64Array): TextPosition[] {
  const positions: TextPosition[] = new Array(offsets.length)
  const order = [...offsets.keys()].sort((a, b) => offsets[a]! - offsets[b]!)
  let [at, line, lineStart] = [0, 1, 0]
  for (const number of order) {
    const offset = offsets[number]!
    for (; at < offset; at++) {
      const character = text.charCodeAt(at)
      if (character !== 10 && (character !== 13 || text.charCodeAt(at + 1) === 10)) continue
      line++
      lineStart = at + 1
    }
    positions[number] = { line, column: offset - lineStart + 1 }
  }
  return positions
}
