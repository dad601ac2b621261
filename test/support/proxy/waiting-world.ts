import type { Allowed, Decision } from '../../../src/engine/decision.ts'
import { Engine } from '../../../src/engine/engine.ts'
import type { Sender } from '../../../src/proxy/body/body-memory.ts'
import { type Waiter, WaitingRoom } from '../../../src/proxy/waiting/waiting-room.ts'
import { PlainRequestView } from '../../../src/request/view.ts'
import { newEmbeddedStore } from '../../../src/store/table/embedded-store.ts'
import { MetricMemory, newMetricBuffer } from '../../../src/telemetry/metrics/metric-memory.ts'
import { WaitMetrics } from '../../../src/telemetry/metrics/wait-metrics.ts'
import type { PolicyText } from '../bundles/bundles.ts'
import { callerDigest, planOf } from '../overrides/overridden-engine.ts'
import { ManualClock } from '../service/manual-clock.ts'

/** How a request of the world ended. */
export type Ending = 'allowed' | 'rejected' | 'refused' | 'gone'

/** A request that comes at a moment of the world's clock. */
export class WorldRequest {
  readonly cameMs: number
  readonly sender: Sender
  bodyBytes = 0
  ending: Ending | undefined
  endedMs = Number.NaN
  decision: Decision | undefined
  readonly #world: WaitingWorld
  readonly #headers: Readonly<Record<string, string>>
  readonly #waiter: Waiter

  constructor(world: WaitingWorld, headers: Readonly<Record<string, string>>, address: string) {
    this.#world = world
    this.#headers = headers
    this.cameMs = world.clock.nowMs()
    this.sender = { address, isClient: true }
    this.#waiter = world.room.open(this)
  }

  /** Whether it has neither an answer nor left. */
  get isWaiting(): boolean {
    return this.ending === undefined
  }

  decideAgain(): void {
    const view = new PlainRequestView({ method: 'GET', uri: '/', headers: this.#headers })
    const decision = this.#world.engine.decide(view, { lines: this.#waiter }) as Decision
    if (decision.action === 'reject' && decision.isWaiting) return
    this.decision = decision
    this.#end(({ allow: 'allowed', reject: 'rejected', refuse: 'refused' } as const)[decision.action])
  }

  leave(): void {
    if (this.isWaiting) this.#end('gone')
  }

  /** Ends a request that was allowed, as far as rules count requests in flight. */
  finish(): void {
    for (const hold of (this.decision as Allowed | undefined)?.reservation?.holds ?? []) void this.#world.engine.settle(hold, 0)
  }

  #end(ending: Ending): void {
    if (this.ending !== undefined) throw new Error(`it ended twice: ${this.ending}, then ${ending}`)
    this.ending = ending
    this.endedMs = this.#world.clock.nowMs()
    this.#waiter.end(ending === 'gone' ? 'client_gone' : ending)
  }
}

/** The real engine, store and waiting room on a clock that the test holds. */
export class WaitingWorld {
  readonly clock = new ManualClock()
  readonly engine: Engine
  readonly room: WaitingRoom
  readonly requests: WorldRequest[] = []
  readonly memory = new MetricMemory(newMetricBuffer(1), 0)
  /** Bytes of bodies that wait, and how many may. */
  bodyBytes = 0
  maxBodyBytes = Number.POSITIVE_INFINITY
  /** How many rejections were reported. */
  reported = 0
  #timers: Timer[] = []

  constructor(policies: readonly PolicyText[], maxWaiting = 1000) {
    const callerWatch = { onReject: () => void this.reported++, onLevels: () => {} }
    this.engine = new Engine({ store: newEmbeddedStore(1024 * 1024), clock: this.clock, callerDigest, callerWatch })
    this.engine.activate(planOf(...policies))
    this.room = new WaitingRoom({
      maxWaiting,
      nowMs: () => this.clock.nowMs(),
      after: (ms, callback) => this.#after(ms, callback),
      bodyMemory: {
        beginWait: (bytes) => {
          if (this.bodyBytes + bytes > this.maxBodyBytes) return false
          this.bodyBytes += bytes
          return true
        },
        endWait: (bytes) => {
          this.bodyBytes -= bytes
        },
      },
      metrics: new WaitMetrics(this.memory),
    })
  }

  /** A request comes now. */
  ask(headers: Readonly<Record<string, string>> = {}, address = '192.0.2.1', bodyBytes = 0): WorldRequest {
    const request = new WorldRequest(this, headers, address)
    request.bodyBytes = bodyBytes
    this.requests.push(request)
    request.decideAgain()
    return request
  }

  /** Lets so much time pass, and everything happen that is due by then. */
  pass(ms: number): void {
    const untilMs = this.clock.nowMs() + ms
    for (let next = this.#next(untilMs); next !== undefined; next = this.#next(untilMs)) {
      this.clock.advance(Math.max(0, next.atMs - this.clock.nowMs()))
      next.callback()
    }
    this.clock.advance(untilMs - this.clock.nowMs())
  }

  /** The earliest one and, of several at one time, the one that was set first. */
  #next(untilMs: number): Timer | undefined {
    const [due] = this.#timers.filter(({ atMs }) => atMs <= untilMs).sort((a, b) => a.atMs - b.atMs)
    this.#timers = this.#timers.filter((timer) => timer !== due)
    return due
  }

  #after(ms: number, callback: () => void): () => void {
    const timer = { atMs: this.clock.nowMs() + ms, callback }
    this.#timers.push(timer)
    return () => {
      this.#timers = this.#timers.filter((other) => other !== timer)
    }
  }
}

interface Timer {
  readonly atMs: number
  readonly callback: () => void
}
