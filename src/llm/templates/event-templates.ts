import type { Dialect } from '../dialects/dialect.ts'
import type { JsonObject } from '../json.ts'
import type { SsePiece } from '../sse-framing.ts'
import type { EventTemplate } from './event-template.ts'
import { learnTemplate } from './learn-template.ts'

/** Choices and tool calls come in turns, each with a shape of its own. */
export const MAX_TEMPLATES = 4
/** Learning costs about as much as parsing a few events. A stream may learn so often at once, and once more for so many events. */
const LEARNINGS_AHEAD = 8
const EVENTS_PER_LEARNING = 32
/** A template that fitted none of so many events is forgotten when another is learned. */
const MAX_IDLE_EVENTS = 64

/** The shapes of the last events of a stream. */
export class EventTemplates {
  readonly #maxTemplates: number
  #templates: readonly EventTemplate[] = []
  /** The index of the one that fitted last. */
  #last = 0
  #events = 0
  #learnings = 0

  constructor(maxTemplates: number) {
    this.#maxTemplates = maxTemplates
  }

  /** The template of the event that the bytes begin with; undefined: it must be parsed. */
  find(bytes: Buffer, from: number, to: number): EventTemplate | undefined {
    const templates = this.#templates
    let i = this.#last
    for (let tries = templates.length; tries > 0; tries--) {
      const template = templates[i]!
      if (template.fits(bytes, from, to)) {
        template.lastUsed = ++this.#events
        this.#last = i
        return template
      }
      i = i + 1 === templates.length ? 0 : i + 1
    }
    return undefined
  }

  /** Learns from an event that had to be parsed, and in which something was counted. */
  learn(piece: SsePiece, spans: readonly number[], event: JsonObject, dialect: Dialect): void {
    this.#events++
    if (this.#maxTemplates === 0 || !dialect.countsOnly(event)) return
    if (this.#learnings > LEARNINGS_AHEAD + this.#events / EVENTS_PER_LEARNING) return
    this.#learnings++
    const template = learnTemplate(piece, spans, dialect)
    if (template === undefined) return
    template.lastUsed = this.#events
    this.#add(template)
  }

  /** In the place of the one that has not fitted for longest. */
  #add(template: EventTemplate): void {
    const isIdle = ({ lastUsed }: EventTemplate): boolean => this.#events - lastUsed > MAX_IDLE_EVENTS
    const kept = this.#templates.filter((other) => !isIdle(other)).sort((a, b) => b.lastUsed - a.lastUsed)
    this.#templates = [template, ...kept.slice(0, this.#maxTemplates - 1)]
    this.#last = 0
  }
}
