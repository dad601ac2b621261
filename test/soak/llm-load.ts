import { Agent } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { Random } from '../support/random/random.ts'
import { type BudgetCaller, CALLER_FIELD, tokensIn } from './budget-caller.ts'
import type { Findings } from './findings.ts'
import { type LlmPlay, randomPlay } from './llm-play.ts'
import { ProxyRequest } from './proxy-request.ts'
import { ID_FIELD, PLAY_FIELD, type SoakBackend } from './soak-backend.ts'

export const CROWD_LANES = 10
const LONGEST_THOUGHTS_MS = [0, 20, 200]
const LONGEST_STAY_MS = [5, 50, 400]

export interface LlmLoadParts {
  readonly port: number
  readonly backend: SoakBackend
  /** Each sends one request at a time. */
  readonly serial: readonly BudgetCaller[]
  /** Each has many under way at once. */
  readonly crowd: readonly BudgetCaller[]
  /** Like the crowd, and clients leave at any moment. */
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

  constructor(parts: LlmLoadParts, random: Random) {
    this.#parts = parts
    const { serial, crowd, leavers } = parts
    this.#lanes = serial.map((caller) => this.#run([caller], new Random(random.below(2 ** 32))))
    for (let i = 0; i < CROWD_LANES; i++) this.#lanes.push(this.#run([...crowd, ...leavers], new Random(random.below(2 ** 32))))
  }

  async stop(): Promise<void> {
    this.#isOver = true
    await Promise.all(this.#lanes)
  }

  async #run(callers: readonly BudgetCaller[], random: Random): Promise<void> {
    const agent = new Agent({ keepAlive: true })
    while (!this.#isOver) {
      const caller = random.oneOf(callers)
      let play = randomPlay(random)
      while (!this.#suits(play, caller)) play = randomPlay(random)
      await this.#ask(caller, play, agent, random)
      await sleep(random.next() * random.oneOf(LONGEST_THOUGHTS_MS))
    }
    agent.destroy()
  }

  /** Whether it leaves no doubt about what it costs this caller. */
  #suits({ end, isPartial }: LlmPlay, caller: BudgetCaller): boolean {
    const { serial, leavers } = this.#parts
    // Only a client that leaves ends what stalls, and the request that it leaves is under way for some time after that.
    if (serial.includes(caller)) return end !== 'stalled'
    return !isPartial || leavers.includes(caller)
  }

  async #ask(caller: BudgetCaller, play: LlmPlay, agent: Agent, random: Random): Promise<void> {
    const { port, backend, leavers, findings, mayBeLost } = this.#parts
    const leaves = leavers.includes(caller) && random.below(2) === 0
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
