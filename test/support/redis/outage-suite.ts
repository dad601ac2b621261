import { expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../bundles/bundles.ts'
import type { Edge } from '../service/edge.ts'
import { thisTest } from '../service/running.ts'
import { until } from '../until.ts'
import { HeldDeadlines } from './held-deadlines.ts'
import { type RedisServer, redisOfSuite } from './redis-server.ts'
import { describeWithRedis } from './redis-suite.ts'
import { admitted, answersBy, HARDLY_ANY, hasRedis, remaining, sharing } from './sharing-edge.ts'
import { gateTo, type TcpGate } from './tcp-gate.ts'

const LIMIT = 4
const FOUR = bundle(1, policy('p', { rules: [bucketRule('four', [], LIMIT, HARDLY_ANY)] }))
const PASSWORD = 'pa55-of-redis'
/** It passes when the test says so. */
const TIMEOUT_MS = 1000
const ASKED = 8
/** How many of those each mode admits where nothing was taken before. */
const ADMITTED = { local: LIMIT, open: ASKED, closed: 0 }
/** How long a start waits for Redis. */
const FIRST_USE_MS = 2000

interface Fault {
  begin(gate: TcpGate, redis: RedisServer): unknown
  /** While it lasts, when the first calls have been given up. */
  goOn?(gate: TcpGate, deadlines: HeldDeadlines): unknown
  /** May be called again. */
  end(gate: TcpGate, redis: RedisServer): unknown
  /** How it shows in edge_redis_errors_total. */
  readonly error: 'timeout' | 'connection' | 'reply'
}

const FAULTS = {
  'goes away': { begin: (_, redis) => redis.stop(), end: (_, redis) => redis.isRunning || redis.start(), error: 'connection' },
  'is a black hole': { begin: (gate) => gate.hold(), end: (gate) => gate.release(), error: 'timeout' },
  'is slow': {
    begin: (gate) => gate.hold('answers'),
    // They come when nobody waits for them any more.
    goOn: async (gate, deadlines) => {
      await deadlines.giveUp(TIMEOUT_MS)
      gate.release()
      gate.hold('answers')
    },
    end: (gate) => gate.release(),
    error: 'timeout',
  },
  'has no memory left': {
    begin: (_, redis) => redis.command('CONFIG', 'SET', 'maxmemory', 1),
    end: (_, redis) => redis.command('CONFIG', 'SET', 'maxmemory', 0),
    error: 'reply',
  },
  'stands still': { begin: (_, redis) => redis.pause(), end: (_, redis) => redis.resume(), error: 'timeout' },
} satisfies Readonly<Record<string, Fault>>

/** What becomes of an instance whose Redis has one of these faults, in each failure mode. */
export function outageSuite(...faults: readonly (keyof typeof FAULTS)[]): void {
  describeWithRedis('a Redis that', () => {
    const shared = redisOfSuite({ password: PASSWORD })

    for (const name of faults) {
      const fault: Fault = FAULTS[name]
      test(`${name}, local: the instance admits what is left of the limit by its own count, and not more when Redis is back`, async () => {
        const outage = await Outage.begin(shared(), 'local', fault)
        const during = await outage.ask()
        // One was taken before.
        expect(admitted(during)).toBe(LIMIT - 1)
        expect(during.filter(({ status }) => status === 429)).toHaveLength(ASKED - LIMIT + 1)
        for (const { headers } of during) expect(headers['ratelimit-limit']).toBe('4')
        await outage.end()
        expect(admitted(await outage.edge.decideTimes(3))).toBe(0)
      })

      test(`${name}, open: all pass`, async () => {
        const outage = await Outage.begin(shared(), 'open', fault)
        const during = await outage.ask()
        expect(admitted(during)).toBe(ASKED)
        for (const { headers } of during) expect(headers['ratelimit-remaining']).toBe('4')
        await outage.end()
        // What passed unasked was not taken from anybody; calls with unknown outcome may have been.
        expect(admitted(await outage.edge.decideTimes(LIMIT + 1))).toBeLessThan(LIMIT)
      })

      test(`${name}, closed: none passes, and the reason is told`, async () => {
        const outage = await Outage.begin(shared(), 'closed', fault)
        const during = await outage.ask()
        expect(during.map(({ status }) => status)).toEqual(new Array(ASKED).fill(503))
        for (const { headers, body } of during) {
          expect(headers['x-edge-reason']).toBe('store_unavailable')
          expect(Object.keys(headers).filter((field) => field.startsWith('ratelimit'))).toEqual([])
          expect(body).toBe('')
        }
        await outage.end()
        expect(admitted(await outage.edge.decideTimes(LIMIT + 1))).toBeLessThan(LIMIT)
      })
    }
  })
}

/** How an instance starts without Redis, and finds it later. */
export function startSuite(...modes: readonly (keyof typeof ADMITTED)[]): void {
  describeWithRedis('without Redis', () => {
    const shared = redisOfSuite()

    test.for(modes.map((mode) => [mode, ADMITTED[mode]] as const))(
      'at the start, %s: it is ready all the same, admits %i of 8, and uses Redis when it comes',
      async ([mode, expected]) => {
        const redis = shared()
        await redis.stop()
        const redisDeadlines = new HeldDeadlines()
        const starting = sharing(redis.url, { bundle: FOUR, env: { EDGE_REDIS_FAILURE_MODE: mode }, redisDeadlines })
        const edge = await redisDeadlines.passDuring(FIRST_USE_MS, starting)
        const ready = await edge.get('/readyz')
        expect([ready.status, JSON.parse(ready.body)]).toMatchObject([200, { status: 'ready', redis: 'unavailable' }])
        expect(admitted(await edge.decideTimes(ASKED))).toBe(expected)
        expect(await answersBy(edge)).toEqual({ redis: 0, failureMode: ASKED })
        await redis.start()
        await until(() => hasRedis(edge))
        await edge.decide()
        expect(await answersBy(edge)).toEqual({ redis: 1, failureMode: ASKED })
      },
    )
  })
}

/** One instance behind a gate to a Redis with a password, in trouble, and what is true of every trouble. */
class Outage {
  readonly edge: Edge
  readonly #deadlines: HeldDeadlines
  readonly #gate: TcpGate
  readonly #redis: RedisServer
  readonly #fault: Fault
  readonly #mode: string

  private constructor(edge: Edge, deadlines: HeldDeadlines, gate: TcpGate, redis: RedisServer, fault: Fault, mode: string) {
    this.edge = edge
    this.#deadlines = deadlines
    this.#gate = gate
    this.#redis = redis
    this.#fault = fault
    this.#mode = mode
  }

  static async begin(redis: RedisServer, mode: string, fault: Fault): Promise<Outage> {
    const gate = await gateTo(redis.port)
    const redisDeadlines = new HeldDeadlines()
    const env = { EDGE_REDIS_TIMEOUT_MS: String(TIMEOUT_MS), EDGE_REDIS_FAILURE_MODE: mode }
    const edge = await sharing(`redis://:${PASSWORD}@${gate.address}`, { bundle: FOUR, env, redisDeadlines })
    expect(remaining(await edge.decide())).toBe(LIMIT - 1)
    expect(await hasRedis(edge)).toBe(true)
    // Redis is shared: no test may leave its trouble to the next one.
    thisTest.onTestFinished(async () => void (await fault.end(gate, redis)))
    await fault.begin(gate, redis)
    return new Outage(edge, redisDeadlines, gate, redis, fault, mode)
  }

  /** Some at once, while the trouble may not have been noticed yet, then the rest. */
  async ask() {
    const half = Array.from({ length: ASKED / 2 })
    const askHalf = () => {
      const answers = Promise.all(half.map(() => this.edge.decide()))
      // A Redis that says what is wrong is not given up before.
      return this.#fault.error === 'timeout' ? this.#deadlines.passDuring(TIMEOUT_MS, answers) : answers
    }
    const first = await askHalf()
    await this.#fault.goOn?.(this.#gate, this.#deadlines)
    const then = await askHalf()
    const { status, body } = await this.edge.get('/readyz')
    expect([status, JSON.parse(body)]).toMatchObject([200, { status: 'ready', redis: 'unavailable' }])
    expect(await this.edge.metric(this.#circuit)).toBe(1)
    expect(await answersBy(this.edge)).toEqual({ redis: 1, failureMode: ASKED })
    expect(await this.edge.metric(`edge_redis_errors_total{kind="${this.#fault.error}"}`)).toBeGreaterThan(0)
    return [...first, ...then]
  }

  async end(): Promise<void> {
    await this.#fault.end(this.#gate, this.#redis)
    await until(() => hasRedis(this.edge))
    const { redis } = await answersBy(this.edge)
    expect(redis).toBe(1)
    await this.edge.decide()
    await until(() => hasRedis(this.edge))
    expect(await this.edge.metric(this.#circuit)).toBe(0)
    for (const to of ['open', 'closed']) expect(await this.edge.metric(`edge_redis_circuit_changes_total{to="${to}"}`)).toBe(1)
    const node = this.#gate.address
    const told = this.edge.log.filter(({ event }) => String(event).startsWith('redis_'))
    expect(told).toMatchObject([
      { event: 'redis_unavailable', node, worker: 1, failure_mode: this.#mode, reason: expect.any(String) },
      {
        event: 'redis_available',
        node,
        worker: 1,
        reason: 'it answers',
        away_ms: expect.any(Number),
        msg: `the circuit to ${node} is closed: it answers`,
      },
    ])
    expect(JSON.stringify(this.edge.log)).not.toContain(PASSWORD)
  }

  get #circuit(): string {
    return `edge_redis_circuit_open{node="${this.#gate.address}"}`
  }
}
