import { EVENT_ID, getScalarValue, parseEvents, SCALAR_STYLE, type ScalarEvent } from 'js-yaml'
import { closingQuote } from './json-document.ts'
import { YAML_MAX_DEPTH } from './yaml-document.ts'

/** A value or a key in the text of a document. */
export interface DocumentNode {
  readonly kind: 'scalar' | 'list' | 'object' | 'alias'
  /** Where it begins: at its first character, quotes included. */
  readonly start: number
  /** The characters of a scalar between its quotes, or of an alias with its `*`. A collection and an empty scalar have none: both are 0. */
  readonly innerStart: number
  readonly innerEnd: number
  /** The index of the first node that is not inside this one. */
  after: number
  /** The index of the node that an alias refers to; otherwise that of the node itself. */
  readonly target: number
}

/**
 * The values of a valid JSON or YAML document in the order of its text, and where they are in it. An object has a key and a value in
 * turn, a list its items. It is built only where a place in the text is asked for: that takes about as long as parsing.
 */
export class DocumentNodes {
  readonly nodes: DocumentNode[] = []
  readonly #scalarText: (node: number) => string

  /** `maxNodes`: what comes behind so many is left out. */
  constructor(text: string, format: 'json' | 'yaml', maxNodes = Number.POSITIVE_INFINITY) {
    this.#scalarText = (format === 'json' ? readJsonNodes : readYamlNodes)(text, this.nodes, maxNodes)
  }

  /** What a scalar says, as a text. */
  scalarText(node: number): string {
    return this.#scalarText(node)
  }

  /** The node at this index, or the one that it is an alias of. */
  resolved(node: number): number {
    return this.nodes[node]!.target
  }

  /** The indices of a list's items, or of an object's keys and values in turn. */
  *children(node: number): Generator<number> {
    const { after } = this.nodes[node]!
    for (let child = node + 1; child < after; child = this.nodes[child]!.after) yield child
  }

  /** The members of an object. A key that is itself a list or an object has no name, and is left out. */
  *members(object: number): Generator<{ readonly name: string; readonly key: number; readonly value: number }> {
    if (this.nodes[object]!.kind !== 'object') return
    let key: number | undefined
    for (const child of this.children(object)) {
      if (key === undefined) {
        key = child
        continue
      }
      const target = this.resolved(key)
      if (this.nodes[target]!.kind === 'scalar') yield { name: this.scalarText(target), key, value: child }
      key = undefined
    }
  }
}

/** Whatever may stand between two values, and the end of a number or of a literal. */
const BETWEEN = new Set([' ', '\t', '\r', '\n', ',', ':', ']', '}'])

function readJsonNodes(text: string, nodes: DocumentNode[], maxNodes: number): (node: number) => string {
  const open: number[] = []
  for (let i = 0; i < text.length && nodes.length < maxNodes; i++) {
    const character = text[i]!
    const target = nodes.length
    if (character === '{' || character === '[') {
      open.push(target)
      nodes.push({ kind: character === '{' ? 'object' : 'list', start: i, innerStart: 0, innerEnd: 0, after: 0, target })
    } else if (character === '}' || character === ']') {
      nodes[open.pop()!]!.after = target
    } else if (character === '"') {
      const end = closingQuote(text, i)
      nodes.push({ kind: 'scalar', start: i, innerStart: i + 1, innerEnd: end, after: target + 1, target })
      i = end
    } else if (!BETWEEN.has(character)) {
      let end = i + 1
      while (end < text.length && !BETWEEN.has(text[end]!)) end++
      nodes.push({ kind: 'scalar', start: i, innerStart: i, innerEnd: end, after: target + 1, target })
      i = end - 1
    }
  }
  closeAll(open, nodes)
  return (node) => {
    const { start, innerStart, innerEnd } = nodes[node]!
    return start === innerStart ? text.slice(innerStart, innerEnd) : (JSON.parse(text.slice(start, innerEnd + 1)) as string)
  }
}

function readYamlNodes(text: string, nodes: DocumentNode[], maxNodes: number): (node: number) => string {
  const open: number[] = []
  const scalars = new Map<number, ScalarEvent>()
  const anchors = new Map<string, number>()
  /** An empty value has no place: it is where the text before it ends. */
  let last = 0
  for (const event of parseEvents(text, { maxDepth: YAML_MAX_DEPTH })) {
    const target = nodes.length
    if (target >= maxNodes) break
    if (event.type === EVENT_ID.DOCUMENT) continue
    if (event.type === EVENT_ID.POP) {
      const closed = open.pop()
      if (closed !== undefined) nodes[closed]!.after = target
      continue
    }
    if (event.type === EVENT_ID.ALIAS) {
      const named = anchors.get(text.slice(event.anchorStart, event.anchorEnd)) ?? target
      const [start, end] = [event.anchorStart - 1, event.anchorEnd]
      nodes.push({ kind: 'alias', start, innerStart: start, innerEnd: end, after: target + 1, target: named })
      last = end
      continue
    }
    if (event.anchorStart >= 0) anchors.set(text.slice(event.anchorStart, event.anchorEnd), target)
    if (event.type === EVENT_ID.SCALAR) {
      const isEmpty = event.valueStart < 0
      const [innerStart, innerEnd] = isEmpty ? [0, 0] : [event.valueStart, event.valueEnd]
      const isQuoted = event.style === SCALAR_STYLE.DOUBLE_QUOTED || event.style === SCALAR_STYLE.SINGLE_QUOTED
      const start = isEmpty ? last : innerStart - (isQuoted ? 1 : 0)
      scalars.set(target, event)
      nodes.push({ kind: 'scalar', start, innerStart, innerEnd, after: target + 1, target })
      last = Math.max(last, innerEnd)
    } else {
      open.push(target)
      const kind = event.type === EVENT_ID.MAPPING ? 'object' : 'list'
      nodes.push({ kind, start: event.start, innerStart: 0, innerEnd: 0, after: 0, target })
      last = event.start
    }
  }
  closeAll(open, nodes)
  return (node) => getScalarValue(text, scalars.get(node)!)
}

/** Collections that were not read to their end have what was read of them. */
function closeAll(open: readonly number[], nodes: readonly DocumentNode[]): void {
  for (const node of open) nodes[node]!.after = nodes.length
}
