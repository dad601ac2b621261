import { pino } from 'pino'
import type { Allowed } from '../../../src/engine/decision.ts'
import { Engine } from '../../../src/engine/engine.ts'
import type { ReservedCharge } from '../../../src/engine/reservation.ts'
import type { LlmRequest } from '../../../src/llm/llm-request.ts'
import type { PlanRule } from '../../../src/policy/plan.ts'
import type { LlmResponseParts, ResponseFlow } from '../../../src/proxy/llm/llm-response.ts'
import { Settlement, type SettlementParts } from '../../../src/proxy/llm/settlement.ts'
import { StreamedResponse } from '../../../src/proxy/llm/streamed-response.ts'
import { PlainRequestView } from '../../../src/request/view.ts'
import type { CounterStore, Outcome } from '../../../src/store/counter-store.ts'
import { InFlightMetrics } from '../../../src/telemetry/metrics/llm-metrics.ts'
import { MetricMemory, newMetricBuffer } from '../../../src/telemetry/metrics/metric-memory.ts'
import { Sampler } from '../../../src/telemetry/sampler.ts'
import type { Clock } from '../../../src/time/clock.ts'
import { WorkSlices } from '../../../src/time/slices.ts'
import { budgetRule, llmRule, policy } from '../bundles/bundles.ts'
import { planOf } from '../overrides/overridden-engine.ts'
import { chatChunk } from './llm-streams.ts'

/** One for all tests of a file, because it is large. */
const IN_FLIGHT = new InFlightMetrics(new MetricMemory(newMetricBuffer(1), 0))

/** A question of a growing reservation that waits for its answer. */
interface Ask {
  readonly amount: number
  answer(): Promise<void>
  fail(): Promise<void>
}

export interface GrowingOptions {
  readonly mode?: 'shadow'
  readonly reserve?: object
  /** The answers to growth wait for `answer`; otherwise they come as the store gives them. */
  readonly isDelayed?: boolean
}

/** Streams through the proxy's own parts, without sockets, on one budget of tokens and one of money of the same size. One token costs a millionth. */
export class GrowingStreams {
  readonly engine: Engine
  readonly asks: Ask[] = []
  /** What was charged in the end, by rule, in the rule's unit. */
  readonly used = new Map<string, number>()
  readonly growths: string[] = []
  readonly truncations: string[] = []
  readonly logged: object[] = []
  readonly #clock: Clock
  readonly #settling: Promise<unknown>[] = []

  constructor(
    store: CounterStore,
    clock: Clock,
    budgetTokens: number,
    { mode, reserve = { first: 200, step: 100 }, isDelayed = false }: GrowingOptions = {},
  ) {
    this.#clock = clock
    this.engine = new Engine({ store: isDelayed ? this.#delaying(store) : store, clock })
    const rules = [
      llmRule('tokens', [], { tokens_per_day: budgetTokens, reserve, streaming: { include_partial_usage: false } }),
      budgetRule('money', [], { budget: budgetTokens / 1_000_000, prices: 'table', reserve, streaming: { include_partial_usage: false } }),
    ]
    this.engine.activate(planOf(policy('p', { ...(mode && { mode }), rules })))
  }

  /** Returns undefined if the request is rejected. `coding` is the Content-Encoding of the response. */
  async open(promptTokens: number, requestedTokens?: number, coding?: string): Promise<PlayedStream | undefined> {
    const request: LlmRequest = {
      promptTokens,
      requestedTokens,
      choices: 1,
      isStream: true,
      isGrowable: true,
      model: undefined,
      hasPrompt: true,
    }
    const view = new PlainRequestView({ method: 'POST', uri: '/v1/chat/completions', headers: {} })
    const decision = await this.engine.decide(view, { body: request })
    if (decision.action !== 'allow') return undefined
    const settlement = new Settlement((decision as Allowed).reservation!, request, this.#parts())
    const parts = {
      settlement,
      request,
      isActivated: true,
      hidesUsage: false,
      isUnasked: false,
      isLookup: false,
      lookedUpIds: [],
      maxBodyBytes: 1024,
      slices: new WorkSlices(),
      metrics: this.#metrics(),
      logger: this.#logger(),
    }
    return new PlayedStream(parts, coding)
  }

  /** All that is asked for is answered, and all settlements are done. */
  async settled(): Promise<void> {
    while (this.asks.length > 0) await this.asks.shift()!.answer()
    await Promise.all(this.#settling)
  }

  #parts(): SettlementParts {
    const { engine } = this
    const proxied = {
      get isShadowed() {
        return engine.isShadowed
      },
      noteUnsettled: () => {},
      noteSettled: () => {},
      settle: (charge: ReservedCharge, amount: number) => {
        const done = engine.settle(charge, amount)
        this.#settling.push(Promise.resolve(done))
        return done
      },
      overdraw: (charge: ReservedCharge, amount: number) => engine.overdraw(charge, amount),
      grow: (charge: ReservedCharge, amount: number) => engine.grow(charge, amount),
    }
    const sampled = new Sampler<string>(new Map())
    const [metrics, logger] = [this.#metrics(), this.#logger()]
    return {
      engine: proxied as unknown as Engine,
      metrics,
      costMetrics: metrics as never,
      inFlightMetrics: IN_FLIGHT,
      logger,
      clock: this.#clock,
      sampled,
      trace: undefined,
    }
  }

  /** The store, but what growth takes waits for the test. */
  #delaying(store: CounterStore): CounterStore {
    const takeAll: CounterStore['takeAll'] = (charges, results, nowMs, wallMs, purpose) => {
      if (purpose !== 'growth') return store.takeAll(charges, results, nowMs, wallMs, purpose)
      return new Promise<Outcome>((resolve, reject) => {
        const answer = async (): Promise<void> => {
          resolve(await store.takeAll(charges, results, nowMs, wallMs, purpose))
          await turn()
        }
        const fail = async (): Promise<void> => {
          reject(new Error('the store is broken'))
          await turn()
        }
        this.asks.push({ amount: charges.costs[0]!, answer, fail })
      })
    }
    return new Proxy(store, {
      get(target, name) {
        if (name === 'takeAll') return takeAll
        const value: unknown = Reflect.get(target, name, target)
        return typeof value === 'function' ? value.bind(target) : value
      },
    })
  }

  #metrics(): SettlementParts['metrics'] {
    const note = (rule: PlanRule, _reserved: number, amount: number): void => {
      this.used.set(rule.name, (this.used.get(rule.name) ?? 0) + amount)
    }
    return {
      openStreams: { count: 0 },
      countReserved: () => {},
      countUsed: note,
      countSettlement: () => {},
      countNotUnderstood: () => {},
      compareEstimate: () => {},
      countGrowth: ({ name }: PlanRule, outcome: string) => this.growths.push(`${name} ${outcome}`),
      countTruncation: ({ name }: PlanRule, cause: string) => this.truncations.push(`${name} ${cause}`),
      countWouldTruncate: ({ name }: PlanRule, cause: string) => this.truncations.push(`would ${name} ${cause}`),
    } as unknown as SettlementParts['metrics']
  }

  #logger(): SettlementParts['logger'] {
    return pino({}, { write: (line: string) => this.logged.push(JSON.parse(line)) })
  }
}

/** One stream, whose test is the backend and the client. */
export class PlayedStream implements ResponseFlow {
  delivered = ''
  isPaused = false
  isOver = false
  /** Tokens of the largest read. */
  largestRead = 0
  readonly #response: StreamedResponse

  constructor(parts: LlmResponseParts, coding?: string) {
    const fields = coding === undefined ? [] : ['Content-Encoding', coding]
    this.#response = new StreamedResponse({ status: 200, fields, isEventStream: true } as never, parts, this)
  }

  /** The backend sends events with so many tokens each, in one read. */
  read(...tokens: readonly number[]): void {
    this.largestRead = Math.max(
      this.largestRead,
      tokens.reduce((sum, each) => sum + each, 0),
    )
    this.readBytes(tokens.map((each) => chatChunk({ content: '#'.repeat(4 * each) })).join(''))
  }

  readBytes(bytes: string | Buffer): void {
    this.#response.read(Buffer.from(bytes as string))
  }

  /** Tokens that the client has. */
  get tokens(): number {
    return (this.delivered.match(/#/g) ?? []).length / 4
  }

  end(how: 'whole' | 'client_gone' | 'backend_failed'): void {
    if (this.isOver) return
    this.isOver = true
    if (how === 'whole') this.#response.end(() => {})
    else if (how === 'client_gone') this.#response.clientGone()
    else this.#response.backendFailed()
  }

  deliver(bytes: Buffer | string): void {
    this.delivered += bytes.toString('latin1')
  }

  flush(): void {}

  cut(): void {
    this.isOver = true
  }

  failDamaged(error: Error): void {
    throw error
  }

  abandon(error: unknown): void {
    throw error
  }

  pauseBackend(): void {
    this.isPaused = true
  }

  holdBackend(): void {
    this.isPaused = true
  }

  resumeBackend(): void {
    this.isPaused = false
  }
}

/** All promises that can go on have gone on. */
function turn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve)
  })
}
