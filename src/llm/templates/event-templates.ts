import type { Dialect } from '../dialects/dialect.ts'
import type { JsonObject } from '../json.ts'
import { SMALL_EVENT_BYTES } from '../sse-event.ts'
import type { SsePiece } from '../sse-framing.ts'
import type { EventTemplate } from './event-template.ts'
import { learnTemplate } from './learn-template.ts'
import { TextGap } from './text-gap.ts'

/** Choices and tool calls come in turns, each with a shape of its own. */
export const MAX_TEMPLATES = 4
/**
 * Learning costs as much as parsing a few events, so it must pay: each event that fits a template earns a part of another learning, and one that
 * had to be parsed a small part. A stream begins with what it may have at most.
 */
const LEARNING_COST = 128
const EARNED_BY_FIT = 8
const MAX_EARNED = 8 * LEARNING_COST
/** A template that fitted none of this many events is forgotten. */
const MAX_IDLE_EVENTS = 32

const TEXTS = new TextGap()

/** The templates of a stream: the shapes of its latest events. */
export class EventTemplates {
  readonly #maxTemplates: number
  #templates: readonly EventTemplate[] = []
  /** The index of the one that fitted last. */
  #last = 0
  #events = 0
  #earned = MAX_EARNED

  constructor(maxTemplates: number) {
    this.#maxTemplates = maxTemplates
  }

  /** The template of the event that the bytes begin with; undefined: it must be parsed. */
  find(bytes: Buffer, from: number, to: number): EventTemplate | undefined {
    const templates = this.#templates
    // The filter decides whether a larger event is parsed at all.
    const end = Math.min(to, from + SMALL_EVENT_BYTES)
    let i = this.#last
    TEXTS.begin()
    for (let tries = templates.length; tries > 0; tries--) {
      const template = templates[i]!
      if (template.fits(bytes, from, end, TEXTS)) {
        template.lastUsed = ++this.#events
        this.#earned = Math.min(this.#earned + EARNED_BY_FIT, MAX_EARNED)
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
    this.#earned++
    const isIdle = ({ lastUsed }: EventTemplate): boolean => this.#events - lastUsed > MAX_IDLE_EVENTS
    if (this.#templates.some(isIdle)) this.#keep(this.#templates.filter((template) => !isIdle(template)))
    if (this.#maxTemplates === 0 || this.#earned < LEARNING_COST || !dialect.countsOnly(event)) return
    this.#earned -= LEARNING_COST
    const template = learnTemplate(piece, spans, dialect)
    if (template === undefined) return
    template.lastUsed = this.#events
    const kept = this.#templates.toSorted((a, b) => b.lastUsed - a.lastUsed).slice(0, this.#maxTemplates - 1)
    this.#keep([template, ...kept])
  }

  #keep(templates: readonly EventTemplate[]): void {
    this.#templates = templates
    this.#last = 0
  }
}
