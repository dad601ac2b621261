import { setTimeout as sleep } from 'node:timers/promises'
import { llmRule, type PolicyText, policy } from '../support/bundles/bundles.ts'
import { ask } from '../support/service/http.ts'
import type { Findings } from './findings.ts'
import { BUFFER_TOKENS, type LlmPlay, MAX_COMPLETION } from './llm-play.ts'
import type { ProxyRequest } from './proxy-request.ts'

/** The day is the smaller one, by so much that each of the two can be made to tell what it has left, also when it is overdrawn. */
const MINUTE_TOKENS = 8000
const DAY_TOKENS = 2000
const MINUTE_MS = 60_000
const SETTLED_MS = 60_000
const POLL_MS = 50
export const CALLER_FIELD = 'X-Caller'

/** A budget for each caller, which gets one token back a minute, and the same in shadow mode. */
export function budgetPolicies(version: number): PolicyText[] {
  const streaming = { buffer_tokens: BUFFER_TOKENS, on_limit_exceeded: version % 2 === 0 ? 'graceful_close' : 'error_chunk' }
  const budget = {
    tokens_per_minute: 1,
    burst_tokens: MINUTE_TOKENS,
    tokens_per_day: DAY_TOKENS,
    max_completion_tokens: MAX_COMPLETION,
    streaming,
  }
  const small = { tokens_per_minute: 1000, max_completion_tokens: 20 }
  return [
    policy('llm', { selector: { pathPrefix: '/v1' }, rules: [llmRule('budget', ['header:x-caller'], budget)] }),
    policy('llm in shadow', { mode: 'shadow', selector: { pathPrefix: '/v1' }, rules: [llmRule('small', ['header:x-caller'], small)] }),
  ]
}

/** By how much a budget may be beside what its requests must have cost. */
export interface Tolerance {
  /** So many tokens may have gone to nobody. */
  readonly lost: number
  /** So many may have been used and not charged. */
  readonly unpaid: number
}

/** A caller with a budget, and what its requests must have cost. */
export class BudgetCaller {
  readonly name: string
  readonly seen = { admitted: 0, rejected: 0, unknown: 0 }
  /** What was spent lies between the two; they are the same unless clients left or workers died. */
  low = 0
  high = 0
  readonly #bornMs = performance.now()
  readonly #bornDay = utcDay()

  constructor(name: string) {
    this.name = name
  }

  get isExact(): boolean {
    return this.low === this.high
  }

  /** Nothing more can be read of a budget that is spent. */
  get isAtLimit(): boolean {
    return this.high >= DAY_TOKENS
  }

  /** Enters a request that is over. `mayBeLost`: a worker may have ended with it, and what it had reserved stays spent. */
  enter(play: LlmPlay, request: ProxyRequest, mayBeLost: boolean, findings: Findings): void {
    const { status, outcome } = request
    if (status === 429) {
      this.seen.rejected++
      return
    }
    const most = Math.max(play.cost, play.reservedTokens, play.promptTokens + play.seenTokens)
    if (outcome === 'broken' && mayBeLost) return this.#add(0, most, isAdmitted(request))
    if (outcome === 'left') return this.#addLeft(play, request, most, mayBeLost)
    // 502: the backend broke before anything was sent.
    const isAsPlanned = play.end === 'broken' ? outcome === 'broken' || status === 502 : outcome === 'whole' && isExpected(play, status)
    if (!isAsPlanned) findings.note(`a request that should be ${play.end} is ${outcome} with ${status}: ${JSON.stringify(play)}`)
    // What has passed is paid for, but a reset may overtake it.
    if (play.end === 'broken') return this.#add(0, most, true)
    this.#add(play.cost, play.cost, true)
  }

  /** What both budgets have given out, by what they say when they are asked for more than they have. Returns that of the day. */
  async check(port: number, findings: Findings, { lost, unpaid }: Tolerance): Promise<number> {
    let [day, minute, refilled] = [0, 0, 0]
    const [low, high] = [this.low - unpaid, this.high + lost]
    const isRight = (): boolean => day >= low && day <= high && minute >= low - refilled && minute <= high
    // A settlement is on its way to Redis for a moment after its answer is over.
    for (const endMs = performance.now() + SETTLED_MS; ; await sleep(POLL_MS)) {
      day = DAY_TOKENS - (await this.#available(port, 'tpd_exceeded', DAY_TOKENS, findings))
      minute = MINUTE_TOKENS - (await this.#available(port, 'tpm_exceeded', MINUTE_TOKENS, findings))
      refilled = Math.floor((performance.now() - this.#bornMs) / MINUTE_MS)
      if (isRight() || performance.now() > endMs || utcDay() !== this.#bornDay) break
    }
    if (utcDay() === this.#bornDay) findings.within(`spent of the day by ${this.name}`, day, low, high)
    findings.within(`spent of the minute by ${this.name}`, minute, low - refilled, high)
    return day
  }

  #addLeft(play: LlmPlay, request: ProxyRequest, most: number, mayBeLost: boolean): void {
    const { status, text, hasArrived } = request
    const seen = Math.min(tokensIn(text), play.seenTokens)
    // Nothing more was to come, so what it cost does not depend on the moment at which the client left.
    const isExact = !mayBeLost && play.end === 'stalled' && !play.isPartial && hasArrived && seen === play.seenTokens
    const isPaid = !mayBeLost && status === 200 && play.end !== 'broken' && play.cost > 0
    const low = isPaid ? play.promptTokens + (play.asked['stream'] === true ? seen : 0) : 0
    if (isExact) this.#add(play.cost, play.cost, true)
    else this.#add(low, most, isAdmitted(request))
  }

  #add(low: number, high: number, isKnown: boolean): void {
    this.low += low
    this.high += high
    this.seen[isKnown ? 'admitted' : 'unknown']++
  }

  async #available(port: number, reason: string, size: number, findings: Findings): Promise<number> {
    // A number is a token, and embeddings reserve nothing beyond their prompt.
    const answer = await ask(port, 'POST', '/v1/embeddings', [[CALLER_FIELD, this.name]], `{"input":[${'1,'.repeat(size)}1]}`)
    this.seen.rejected++
    const found = /and (-?\d+) are available/.exec(answer.body)?.[1]
    if (answer.headers['x-edge-reason'] === reason && found !== undefined) return Number(found)
    findings.note(`${this.name} asked for ${size + 1} tokens and got ${answer.status} ${answer.headers['x-edge-reason']}, not ${reason}`)
    return Number.NaN
  }
}

function isExpected({ options, asked, end }: LlmPlay, status: number | undefined): boolean {
  const isError = options.fail === 'status' || (options.fail === 'error-event' && asked['stream'] !== true)
  return end === 'whole' && status === (isError ? 500 : 200)
}

function isAdmitted({ status, hasArrived }: ProxyRequest): boolean {
  return status !== undefined || hasArrived
}

/** Every word of the fake LLM is three letters and a space, and one token. */
export function tokensIn(text: string): number {
  let tokens = 0
  for (const [, words] of text.matchAll(/"(?:content|text|delta)":"((?:[a-z]{3} )+)"/g)) tokens += words!.length / 4
  return tokens
}

function utcDay(): number {
  return Math.floor(Date.now() / 86_400_000)
}
