import type { Socket } from 'node:net'
import type { DecisionAnswer } from '../../decide/decision-answer.ts'
import type { DecisionPipeline } from '../../decide/decision-pipeline.ts'
import { FrontState } from '../../listen/wire-front.ts'
import { AnswerText } from './answer-text.ts'
import { HeadReader } from './head-reader.ts'

/** More are in use at a time only while a store is slow. */
const MAX_IDLE_READERS = 64

/** What all connections of a wire share. */
export class DecisionWireContext extends FrontState {
  readonly #pipeline: DecisionPipeline
  readonly #text: AnswerText
  readonly #readers: HeadReader[] = [new HeadReader()]

  constructor(pipeline: DecisionPipeline, keepAliveMs: number, handOver: (socket: Socket) => void) {
    super(handOver)
    this.#pipeline = pipeline
    this.#text = new AnswerText(keepAliveMs)
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
