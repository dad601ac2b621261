import { estimatedTokens } from '../../limiter/llm-budget.ts'
import { readAnswer, readPartialAnswer } from '../../llm/answer.ts'
import { countTokens, hasUsage, type Tally } from '../../llm/usage.ts'
import type { ResponseHead } from '../backend/response-head.ts'
import { headerValue } from '../http-request-view.ts'
import { codingOf, decodeWhole } from './content-coding.ts'
import type { AnswerFlow, LlmAnswer, LlmAnswerParts } from './llm-answer.ts'

/** An answer that is counted when all of it is there. It passes as it is; a copy is kept, up to a bound. */
export class WholeAnswer implements LlmAnswer {
  readonly isFiltered = false
  readonly isDecoded = false
  readonly isBetweenEvents = false
  readonly #parts: LlmAnswerParts
  readonly #flow: AnswerFlow
  readonly #status: number
  readonly #coding: ReturnType<typeof codingOf>
  #copy: Buffer[] = []
  #size = 0

  constructor(head: ResponseHead, parts: LlmAnswerParts, flow: AnswerFlow) {
    this.#parts = parts
    this.#flow = flow
    this.#status = head.status
    this.#coding = codingOf(headerValue(head.fields, 'content-encoding'))
  }

  read(chunk: Buffer): void {
    this.#flow.deliver(chunk)
    this.#size += chunk.length
    if (this.#size <= this.#parts.maxBodyBytes) this.#copy.push(chunk)
    else this.#copy = []
  }

  /** The last bytes wait until it is settled: who has the whole answer finds the budget right. */
  end(onEnded: () => void): void {
    const coding = this.#size === 0 ? 'identity' : this.#coding
    if (coding === undefined || this.#size > this.#parts.maxBodyBytes) {
      this.#settleUnread()
      return onEnded()
    }
    const body = Buffer.concat(this.#copy)
    if (coding === 'identity') {
      this.#settle(readAnswer(body.toString('utf8')))
      return onEnded()
    }
    decodeWhole(body, coding, this.#parts.maxBodyBytes)
      .then(
        (decoded) => this.#settle(readAnswer(decoded.toString('utf8'))),
        () => this.#settleUnread(),
      )
      .then(onEnded)
      .catch((error: unknown) => this.#flow.giveUp(error))
  }

  /** Who leaves one byte before the end has seen the text, and pays for it. */
  clientGone(): void {
    const { settlement, request, maxBodyBytes } = this.#parts
    const isReadable = this.#size === 0 || (this.#coding === 'identity' && this.#size <= maxBodyBytes)
    if (!isReadable) return settlement.stand('client_gone')
    const seen = readPartialAnswer(Buffer.concat(this.#copy).toString('utf8'))
    settlement.settle('client_gone', countTokens(seen, request.promptTokens))
  }

  backendFailed(): void {
    this.#parts.settlement.giveBack('backend_failed')
  }

  pause(): void {}

  resume(): void {}

  #settle(tally: Tally): void {
    const { settlement, request, metrics } = this.#parts
    if (this.#status >= 400 && !hasUsage(tally)) return settlement.giveBack('done')
    if (tally.promptTokens !== undefined) metrics.compareEstimate('prompt', request.promptTokens, tally.promptTokens)
    if (tally.completionTokens !== undefined && tally.characters > 0) {
      metrics.compareEstimate('completion', estimatedTokens(tally.characters), tally.completionTokens)
    }
    settlement.settle('done', countTokens(tally, request.promptTokens))
  }

  /** Nobody can tell what it cost: what was reserved counts as spent, unless the backend says that it failed. */
  #settleUnread(): void {
    if (this.#status >= 400) this.#parts.settlement.giveBack('done')
    else this.#parts.settlement.stand('done')
  }
}
