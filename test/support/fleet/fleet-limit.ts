import { bucketRule, type PolicyText, policy } from '../bundles/bundles.ts'
import type { WireAnswer } from '../service/wire.ts'
import { decisionBytes, original } from '../service/wire.ts'
import { type Admission, worstWindow } from './admissions.ts'
import type { Caller } from './caller.ts'

export interface Question {
  readonly askedMs: number
  readonly answeredMs: number
  /** Undefined: there was no response. */
  readonly status: number | undefined
}

/** One bucket that a fleet shares, and all questions about it, by one clock, to all instances. */
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

  count(status: number | undefined): number {
    return this.questions.filter((question) => question.status === status).length
  }
}
