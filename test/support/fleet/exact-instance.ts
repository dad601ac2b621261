import type { BucketLimit } from '../../../src/limiter/limit.ts'
import { ChargeResults, Charges } from '../../../src/store/charges.ts'
import type { Outcome } from '../../../src/store/counter-store.ts'
import { FleetStore } from '../../../src/store/redis/fleet-store.ts'
import { LinkError, type Script, type ScriptArgument } from '../../../src/store/redis/link/call.ts'
import { SharedCounters } from '../../../src/store/redis/shared-counters.ts'
import { newEmbeddedStore } from '../../../src/store/table/embedded-store.ts'
import { clockedScripts } from '../redis/clocked-link.ts'
import type { RedisServer } from '../redis/redis-server.ts'
import type { Admission } from './admissions.ts'
import type { SimulatedTime } from './simulated-time.ts'

/** What becomes of a call. One whose answer is lost ends at the timeout, and Redis has done it. */
export interface CallTiming {
  readonly outMs: number
  /** A late event loop of ours may make it longer than the timeout. */
  readonly backMs: number
  readonly isLost: boolean
}

export const AT_ONCE: CallTiming = { outMs: 0, backMs: 0, isLost: false }

interface ExactOptions {
  readonly redis: RedisServer
  readonly time: SimulatedTime
  readonly limit: BucketLimit
  readonly timeoutMs: number
}

/** An instance in `exact` and `local` on a real Redis, by a simulated clock: calls take the time that the test says. */
export class ExactInstance {
  readonly admissions: Admission[] = []
  /** Of the next call. */
  nextCall: () => CallTiming = () => AT_ONCE
  /** The circuit is open until then. */
  openUntilMs = 0
  slowestAnswerMs = 0
  readonly #options: ExactOptions
  readonly #scripts = clockedScripts()
  readonly #store: FleetStore
  readonly #counter: ReturnType<FleetStore['open']>
  /** Calls of one connection reach Redis in their order, and the replies arrive in order too. */
  #lastThereMs = 0
  #lastBackMs = 0

  private constructor(options: ExactOptions) {
    const { time, limit, timeoutMs } = options
    this.#options = options
    const link = {
      groupOf: () => 0,
      isUsable: () => time.nowMs() >= this.openUntilMs,
      run: (script: Script, keys: readonly string[], args: readonly ScriptArgument[]) => this.#run(script, keys, args),
    }
    const shared = new SharedCounters(link, this.#scripts, { prefix: 'edge:', maxSlackMs: timeoutMs }, { onUnknownOutcome() {} })
    const local = newEmbeddedStore(64 * 1024)
    this.#store = new FleetStore({ shared, local, failureMode: 'local', clock: time, listener: { onDecided() {} } })
    this.#counter = this.#store.open({ identity: ['rule'], limit, sinceMs: 0 })
  }

  /** On a Redis that is empty. */
  static async start(options: ExactOptions): Promise<ExactInstance> {
    const instance = new ExactInstance(options)
    await options.redis.command('FLUSHALL')
    return instance
  }

  async ask(): Promise<Outcome> {
    const { time } = this.#options
    const askedMs = time.nowMs()
    const charges = new Charges()
    charges.add(this.#counter, 1)
    const outcome = await this.#store.takeAll(charges, new ChargeResults(), askedMs, time.wallMs())
    if (outcome === true) this.admissions.push({ askedMs, answeredMs: time.nowMs(), cost: 1 })
    return outcome
  }

  async #run(script: Script, keys: readonly string[], args: readonly ScriptArgument[]): Promise<unknown> {
    const { redis, time, timeoutMs } = this.#options
    const { outMs, backMs, isLost } = this.nextCall()
    const sentMs = time.nowMs()
    this.#lastThereMs = Math.max(this.#lastThereMs, sentMs + outMs)
    await time.pass(this.#lastThereMs - sentMs)
    const clocked = [...args, String(time.nowMs()), String(time.wallMs())]
    const reply = await time.standStillFor(() => redis.run(script, keys, clocked))
    if (isLost) {
      await time.pass(Math.max(0, sentMs + timeoutMs - time.nowMs()))
      this.openUntilMs = time.nowMs() + timeoutMs
      throw new LinkError('unknown', 'timeout', 'no answer')
    }
    this.#lastBackMs = Math.max(this.#lastBackMs, time.nowMs() + backMs)
    await time.pass(this.#lastBackMs - time.nowMs())
    this.slowestAnswerMs = Math.max(this.slowestAnswerMs, time.nowMs() - sentMs)
    return reply
  }
}
