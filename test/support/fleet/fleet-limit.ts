import { bucketRule, type PolicyText, policy } from '../bundles/bundles.ts'
import type { WireAnswer } from '../service/wire.ts'
import { decisionBytes, original } from '../service/wire.ts'
import { type Admission, worstWindow } from './admissions.ts'
import type { Caller } from './caller.ts'

export interface Question {
  readonly askedMs: number
  readonly answeredMs: number
  /** Undefined: nobody answered. */
  readonly status: number | undefined
}

/** One bucket that a fleet shares, and all questions about it, by one clock, whoever answered. */
export class FleetLimit {
  readonly name: string
  readonly burst: number
  readonly perSecond: number
  readonly questions: Question[] = []
  readonly #path: string
  readonly #bytes: Buffer

  /** For requests to a path of its own, below `folder`. */
  constructor(burst: number, perSecond: number, folder = '') {
    this.name = `${perSecond}/s, burst ${burst}`
    this.burst = burst
    this.perSecond = perSecond
    this.#path = `${folder}/${perSecond}-${burst}`
    this.#bytes = decisionBytes(original(this.#path))
  }

  get policy(): PolicyText {
    const rule = bucketRule('limit', [], this.burst, this.perSecond)
    return policy(this.name, { selector: { pathPrefix: this.#path }, rules: [rule] })
  }

  async askedBy(caller: Caller): Promise<WireAnswer | undefined> {
    const askedMs = performance.now()
    const answer = await caller.ask(this.#bytes)
    this.questions.push({ askedMs, answeredMs: performance.now(), status: answer?.status })
    return answer
  }

  get admissions(): Admission[] {
    return this.questions.filter(({ status }) => status === 200).map((question) => ({ ...question, cost: 1 }))
  }

  /** The largest burst that any window needed: what it admitted less what the rate brings in its time. */
  get worstBurst(): number {
    return worstWindow(this.admissions, this.perSecond / 1000).burst
  }

  count(status: number | undefined, fromMs = 0): number {
    return this.questions.filter((question) => question.status === status && question.askedMs >= fromMs).length
  }

  /** How many of the questions since then one bucket would have let through, asked at the moments when the answers came. */
  idealCount(fromMs: number): number {
    const perMs = this.perSecond / 1000
    let level = this.burst
    let atMs = 0
    let count = 0
    for (const { askedMs, answeredMs } of [...this.questions].sort((a, b) => a.answeredMs - b.answeredMs)) {
      level = Math.min(this.burst, level + (answeredMs - atMs) * perMs)
      atMs = answeredMs
      if (level < 1) continue
      level--
      if (askedMs >= fromMs) count++
    }
    return count
  }
}
