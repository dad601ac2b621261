import { EVENT_ID, type Event, getScalarValue, parseEvents } from 'js-yaml'
import { formatPath, type Path } from '../policy/problem.ts'

/** The line of each value in a valid YAML document, from 1, by its path of up to `maxSteps`. What an alias stands for has none. */
export function yamlLines(text: string, maxDepth: number, maxSteps = Number.POSITIVE_INFINITY): Map<string, number> {
  const lines = new Map<string, number>()
  const lineAt = lineCounter(text)
  const note = (path: Path, event: NodeEvent): void => {
    if (path.length <= maxSteps) lines.set(formatPath(path), lineAt(startOf(event)))
  }
  const open: Level[] = []
  for (const event of parseEvents(text, { maxDepth })) {
    if (event.type === EVENT_ID.DOCUMENT) continue
    if (event.type === EVENT_ID.POP) {
      open.pop()
      continue
    }
    const level = open.at(-1)
    if (level !== undefined && !level.isList && level.key === undefined) {
      // What is no text has no path, but takes its place.
      level.key = event.type === EVENT_ID.SCALAR ? getScalarValue(text, event) : ''
      note([...level.path, level.key], event)
      if (!isCollection(event)) continue
    }
    const path = level === undefined ? [] : [...level.path, level.isList ? level.next++ : level.key!]
    if (level === undefined || level.isList) note(path, event)
    else level.key = undefined
    if (isCollection(event)) open.push({ path, isList: event.type === EVENT_ID.SEQUENCE, next: 0, key: undefined })
  }
  return lines
}

interface Level {
  readonly path: readonly (string | number)[]
  readonly isList: boolean
  /** Of a list. */
  next: number
  /** Of an object, between a key and its value. */
  key: string | undefined
}

type NodeEvent = Exclude<Event, { type: typeof EVENT_ID.DOCUMENT } | { type: typeof EVENT_ID.POP }>

function isCollection(event: NodeEvent): event is Extract<NodeEvent, { start: number }> {
  return event.type === EVENT_ID.SEQUENCE || event.type === EVENT_ID.MAPPING
}

function startOf(event: NodeEvent): number {
  if (event.type === EVENT_ID.SCALAR) return event.valueStart
  return event.type === EVENT_ID.ALIAS ? event.anchorStart : event.start
}

/** For offsets that mostly grow, and never fall by much: looks at each character about once. */
function lineCounter(text: string): (offset: number) => number {
  let at = 0
  let line = 1
  return (offset) => {
    for (; at < offset; at++) if (text[at] === '\n') line++
    for (; at > offset; at--) if (text[at - 1] === '\n') line--
    return line
  }
}
