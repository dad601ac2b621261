import { Agent } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { Random } from '../support/random/random.ts'
import { type BudgetCaller, CALLER_FIELD, tokensIn } from './budget-caller.ts'
import type { Findings } from './findings.ts'
import { type LlmPlay, randomPlay } from './llm-play.ts'
import { ProxyRequest } from './proxy-request.ts'
import { ID_FIELD, PLAY_FIELD, type SoakBackend } from './soak-backend.ts'

const LONGEST_THOUGHTS_MS = [0, 20, 200]
const LONGEST_STAY_MS = [5, 50, 400]

export interface LlmLoadParts {
  readonly port: number
  readonly backend: SoakBackend
  readonly callers: readonly BudgetCaller[]
  /** Callers whose clients leave at any moment. */
  readonly leavers: readonly BudgetCaller[]
  readonly findings: Findings
  /** Answers may get lost. */
  readonly mayBeLost: boolean
}

/** Clients of an LLM: whole answers and streams in all dialects, of backends that work, fail and stall; some of them go away. */
export class LlmLoad {
  requests = 0
  left = 0
  readonly #parts: LlmLoadParts
  #isOver = false
  readonly #lanes: Promise<void>[]

  constructor(parts: LlmLoadParts, random: Random, lanes: number) {
    this.#parts = parts
    this.#lanes = Array.from({ length: lanes }, () => this.#run(new Random(random.below(2 ** 32))))
  }

  async stop(): Promise<void> {
    this.#isOver = true
    await Promise.all(this.#lanes)
  }

  async #run(random: Random): Promise<void> {
    const { callers, leavers } = this.#parts
    const agent = new Agent({ keepAlive: true })
    while (!this.#isOver) {
      const leaves = leavers.length > 0 && random.below(3) === 0
      await this.#ask(random.oneOf(leaves ? leavers : callers), leaves, agent, random)
      await sleep(random.next() * random.oneOf(LONGEST_THOUGHTS_MS))
    }
    agent.destroy()
  }

  async #ask(caller: BudgetCaller, leaves: boolean, agent: Agent, random: Random): Promise<void> {
    const { port, backend, findings, mayBeLost } = this.#parts
    const play = randomPlay(random)
    const id = `${caller.name}/${this.requests++}`
    const headers = { [CALLER_FIELD]: caller.name, [PLAY_FIELD]: JSON.stringify(play.options), [ID_FIELD]: id }
    const isKept = random.below(3) > 0
    const arrival = backend.arrival(id)
    const body = JSON.stringify(play.asked)
    const request = new ProxyRequest({ port, method: 'POST', path: play.path, headers, body, agent: isKept ? agent : undefined })
    void arrival.then(() => {
      request.hasArrived = true
    })
    const isReset = random.below(2) === 0
    if (play.end === 'stalled') await this.#leaveWhenStalled(play, request, arrival, isReset)
    else if (leaves) await Promise.race([request.over, sleep(random.next() * random.oneOf(LONGEST_STAY_MS))])
    else await request.over
    if (leaves) request.leave(isReset)
    await request.over
    if (request.outcome === 'left') this.left++
    backend.forget(id)
    caller.enter(play, request, mayBeLost, findings)
  }

  /** When all that will ever come has come. */
  async #leaveWhenStalled({ seenTokens }: LlmPlay, request: ProxyRequest, arrival: Promise<void>, isReset: boolean): Promise<void> {
    await Promise.race([request.over, arrival])
    const all = new Promise<void>((resolve) => {
      request.onText = () => {
        if (tokensIn(request.text) >= seenTokens) resolve()
      }
      request.onText()
    })
    await Promise.race([request.over, all])
    request.leave(isReset)
  }
}
