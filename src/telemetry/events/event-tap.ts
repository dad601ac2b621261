import { type DestinationStream, pino } from 'pino'
import { PUBLISHED_EVENTS, type PublishedEvent } from './published-events.ts'

type OnEvent = (event: PublishedEvent) => void

/** What is logged before anybody listens is kept, up to so many. */
const MAX_EARLY = 100
/** Events are logged as `info` or above. */
const EVENT_LEVEL = 'info'
const MAX_LINE_CHARACTERS = 16 * 1024
/** Of a longer line, fields up to this size are published. */
const MAX_FIELD_CHARACTERS = 1024

/**
 * A destination of log lines that writes to the log what its level admits, and passes events on whatever that level is. pino sets `lastLevel`
 * and `lastObj` before each line.
 */
export class EventTap implements DestinationStream {
  readonly [pino.symbols.needsMetadataGsym] = true
  lastLevel = 0
  lastObj: { readonly event?: unknown; readonly err?: unknown } = {}
  /** Of the logger that writes here. */
  readonly level: string
  readonly #log: DestinationStream
  readonly #logLevel: number
  #early: PublishedEvent[] = []
  #onEvent: OnEvent | undefined

  constructor(log: DestinationStream, logLevel: string) {
    this.#log = log
    this.#logLevel = numberOf(logLevel)
    this.level = this.#logLevel < numberOf(EVENT_LEVEL) ? logLevel : EVENT_LEVEL
  }

  /** To be called once. */
  listen(onEvent: OnEvent): void {
    this.#onEvent = onEvent
    for (const event of this.#early) onEvent(event)
    this.#early = []
  }

  write(line: string): void {
    const { event: name, err } = this.lastObj
    if (this.lastLevel >= this.#logLevel) this.#log.write(line)
    if (typeof name !== 'string' || !PUBLISHED_EVENTS.has(name)) return
    const event = { name, line: publishedLine(line, err !== undefined) }
    if (this.#onEvent !== undefined) this.#onEvent(event)
    else if (this.#early.length < MAX_EARLY) this.#early.push(event)
  }
}

function numberOf(level: string): number {
  return pino.levels.values[level] ?? Number.POSITIVE_INFINITY // silent
}

/** Errors stay in the log: nobody knows what their messages quote. */
function publishedLine(line: string, hasError: boolean): string {
  if (!hasError && line.length <= MAX_LINE_CHARACTERS) return line.trimEnd()
  const { err: _, ...fields } = JSON.parse(line) as Record<string, unknown>
  const entries = Object.entries(fields)
  const short = entries.filter(([, value]) => JSON.stringify(value).length <= MAX_FIELD_CHARACTERS)
  if (line.length <= MAX_LINE_CHARACTERS || short.length === entries.length) return JSON.stringify(fields)
  const leftOut = entries.filter((entry) => !short.includes(entry)).map(([name]) => name)
  return JSON.stringify({ ...Object.fromEntries(short), left_out: leftOut })
}
