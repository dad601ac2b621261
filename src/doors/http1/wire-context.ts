import type { Socket } from 'node:net'
import type { DecisionAnswer } from '../../decide/decision-answer.ts'
import type { DecisionPipeline } from '../../decide/decision-pipeline.ts'
import { AnswerText } from './answer-text.ts'
import { HeadReader } from './head-reader.ts'

/** More are in use at a time only while a store is slow. */
const MAX_IDLE_READERS = 64

/** What all connections of a wire share. */
export class WireContext {
  /** Whatever comes next is handed over. */
  isDraining = false
  /** The time, at most one sweep ago: no look at the clock per request. */
  roughMs = performance.now()
  /** Gives a connection to `node:http`, for good. */
  readonly handOver: (socket: Socket) => void
  readonly #pipeline: DecisionPipeline
  readonly #text: AnswerText
  readonly #readers: HeadReader[] = [new HeadReader()]

  constructor(pipeline: DecisionPipeline, keepAliveMs: number, handOver: (socket: Socket) => void) {
    this.#pipeline = pipeline
    this.#text = new AnswerText(keepAliveMs)
    this.handOver = handOver
  }

  /** A reader that is not in use. Whoever needs it beyond this turn takes it. */
  get reader(): HeadReader {
    return this.#readers.at(-1)!
  }

  takeReader(): void {
    this.#readers.pop()!.keepHead()
    if (this.#readers.length === 0) this.#readers.push(new HeadReader())
  }

  giveBack(reader: HeadReader): void {
    reader.clear()
    if (this.#readers.length < MAX_IDLE_READERS) this.#readers.push(reader)
  }

  decide(question: HeadReader): DecisionAnswer | Promise<DecisionAnswer> {
    return this.#pipeline.decide(question)
  }

  textOf(answer: DecisionAnswer): string {
    return this.#text.of(answer)
  }
}
