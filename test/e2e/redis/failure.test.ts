import { expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { proxyEnv } from '../../support/proxy/proxy.ts'
import { type RedisServer, runningRedis } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { admitted, answersBy, HARDLY_ANY, hasRedis, remaining, sharing, twoSharing } from '../../support/redis/sharing-edge.ts'
import { standStill } from '../../support/redis/stand-still.ts'
import { countersIn } from '../../support/redis/stored-counters.ts'
import { gateTo, type TcpGate } from '../../support/redis/tcp-gate.ts'
import { Edge } from '../../support/service/edge.ts'
import { ask } from '../../support/service/http.ts'
import type { Owner } from '../../support/service/running.ts'
import { until } from '../../support/until.ts'
import { servingOn } from '../../support/workers/workers.ts'

const LIMIT = 4
const FOUR = bundle(1, policy('p', { rules: [bucketRule('four', [], LIMIT, HARDLY_ANY)] }))
const PASSWORD = 'pa55-of-redis'
/** Late on purpose comes much later than this. */
const TIMEOUT_MS = 1000
const ASKED = 8

interface Fault {
  begin(gate: TcpGate, redis: RedisServer): unknown
  end(gate: TcpGate, redis: RedisServer): unknown
  /** How it shows in edge_redis_errors_total. */
  readonly error: 'timeout' | 'connection' | 'reply'
}

const FAULTS: Readonly<Record<string, Fault>> = {
  'goes away': { begin: (_, redis) => redis.stop(), end: (_, redis) => redis.start(), error: 'connection' },
  'is a black hole': { begin: (gate) => gate.hold(), end: (gate) => gate.release(), error: 'timeout' },
  'is slow': {
    begin: (gate) => {
      gate.delayMs = 3 * TIMEOUT_MS
    },
    end: (gate) => {
      gate.delayMs = 0
    },
    error: 'timeout',
  },
  'has no memory left': {
    begin: (_, redis) => redis.command('CONFIG', 'SET', 'maxmemory', 1),
    end: (_, redis) => redis.command('CONFIG', 'SET', 'maxmemory', 0),
    error: 'reply',
  },
  'stands still': { begin: (_, redis) => redis.pause(), end: (_, redis) => redis.resume(), error: 'timeout' },
}

describeWithRedis('a Redis that', () => {
  for (const [name, fault] of Object.entries(FAULTS)) {
    test.concurrent(`${name}, local: the instance admits what is left of the limit by its own count, and not more when Redis is back`, async (owner) => {
      const outage = await Outage.begin('local', fault, owner)
      const during = await outage.ask()
      // One was taken before.
      expect(admitted(during)).toBe(LIMIT - 1)
      expect(during.filter(({ status }) => status === 429)).toHaveLength(ASKED - LIMIT + 1)
      for (const { headers } of during) expect(headers['ratelimit-limit']).toBe('4')
      await outage.end()
      expect(admitted(await outage.edge.decideTimes(3))).toBe(0)
    })

    test.concurrent(`${name}, open: all pass`, async (owner) => {
      const outage = await Outage.begin('open', fault, owner)
      const during = await outage.ask()
      expect(admitted(during)).toBe(ASKED)
      for (const { headers } of during) expect(headers['ratelimit-remaining']).toBe('4')
      await outage.end()
      // What passed unasked was not taken from anybody; calls with unknown outcome may have been.
      expect(admitted(await outage.edge.decideTimes(LIMIT + 1))).toBeLessThan(LIMIT)
    })

    test.concurrent(`${name}, closed: none passes, and the reason is told`, async (owner) => {
      const outage = await Outage.begin('closed', fault, owner)
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

describeWithRedis('without Redis', () => {
  test.concurrent.for([
    ['local', LIMIT],
    ['open', ASKED],
    ['closed', 0],
  ] as const)(
    'at the start, %s: it is ready all the same, admits %i of 8, and uses Redis when it comes',
    async ([mode, expected], owner) => {
      const redis = await runningRedis({}, owner)
      await redis.stop()
      const edge = await sharing(redis.url, { bundle: FOUR, env: { EDGE_REDIS_FAILURE_MODE: mode } }, owner)
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

  test.concurrent('two instances on their own admit at most the limit each, from before the loss until after the return', async (owner) => {
    const redis = await runningRedis({}, owner)
    const edges = await twoSharing(redis.url, { bundle: FOUR }, owner)
    const statuses = [await edges[0].decideTimes(3), await edges[1].decideTimes(1)]
    await redis.stop()
    await until(async () => !(await hasRedis(edges[0])) && !(await hasRedis(edges[1])))
    const during = await Promise.all(edges.map((edge) => edge.decideTimes(LIMIT + 1)))
    // By their own count they have 1 and 3 left.
    expect(during.map(admitted)).toEqual([1, 3])
    await redis.start()
    await until(async () => (await hasRedis(edges[0])) && (await hasRedis(edges[1])))
    const after = await Promise.all(edges.map((edge) => edge.decideTimes(LIMIT + 1)))
    expect(admitted([...statuses, ...during, ...after].flat())).toBe(2 * LIMIT)
  })

  test.concurrent('what an instance admitted on its own is charged to the fleet when it is back', async (owner) => {
    const redis = await runningRedis({}, owner)
    const gate = await gateTo(redis.port, owner)
    const ten = bundle(1, policy('p', { rules: [bucketRule('ten', [], 10, HARDLY_ANY)] }))
    const [cutOff, other] = await Promise.all([
      sharing(`redis://${gate.address}`, { bundle: ten }, owner),
      sharing(redis.url, { bundle: ten }, owner),
    ])
    await cutOff.decide()
    gate.refuse()
    gate.cut()
    await until(async () => !(await hasRedis(cutOff)))
    expect(admitted(await cutOff.decideTimes(5))).toBe(5)
    await gate.accept()
    await until(() => hasRedis(cutOff))
    expect((await cutOff.decide()).status).toBe(200)
    expect(admitted(await other.decideTimes(10))).toBe(3)
  })

  test.concurrent('a shutdown waits for who waits for a silent one, and no longer', async (owner) => {
    const redis = await runningRedis({}, owner)
    const gate = await gateTo(redis.port, owner)
    const env = { EDGE_REDIS_URL: `redis://${gate.address}`, EDGE_REDIS_TIMEOUT_MS: '1000' }
    const edge = await Edge.start({ bundle: FOUR, env })
    const { requests } = gate.bytes
    redis.pause()
    const answer = edge.decide()
    // Bytes alone may be those of a probe; who asks later is not answered before the decision was read.
    expect((await edge.get('/livez')).status).toBe(200)
    await until(() => gate.bytes.requests > requests)
    await edge.stop()
    expect((await answer).status).toBe(200)
  })

  test.concurrent('a shutdown without it is no sign of its return', async (owner) => {
    const redis = await runningRedis({}, owner)
    const edge = await Edge.start({ bundle: FOUR, env: { EDGE_REDIS_URL: redis.url } })
    await redis.stop()
    await until(async () => !(await hasRedis(edge)))
    await edge.stop()
    expect(edge.log.filter(({ event }) => String(event).startsWith('redis_'))).toMatchObject([{ event: 'redis_unavailable' }])
  })

  test.concurrent('/readyz tells of one that fell silent, though nobody asks for a decision', async (owner) => {
    const redis = await runningRedis({}, owner)
    const edge = await sharing(redis.url, { bundle: FOUR, env: { EDGE_REDIS_TIMEOUT_MS: '200' } }, owner)
    expect(await hasRedis(edge)).toBe(true)
    redis.pause()
    await until(async () => !(await hasRedis(edge)))
    redis.resume()
    await until(() => hasRedis(edge))
    expect(await countersIn(redis)).toEqual([])
    expect(await answersBy(edge)).toEqual({ redis: 0, failureMode: 0 })
  })

  test('a proxy says so in the body that its clients read, and the backend hears nothing', async () => {
    const redis = await runningRedis()
    const backend = await HttpBackend.start()
    const env = { ...proxyEnv(backend.url), EDGE_REDIS_FAILURE_MODE: 'closed' }
    const edge = await sharing(redis.url, { bundle: FOUR, env })
    expect((await ask(edge.port, 'GET', '/')).status).toBe(200)
    await redis.stop()
    await until(async () => !(await hasRedis(edge)))
    const { status, headers, body } = await ask(edge.port, 'POST', '/', [], 'a body')
    expect([status, headers['content-type'], headers['x-edge-reason']]).toEqual([503, 'application/json', 'store_unavailable'])
    expect(JSON.parse(body)).toEqual({
      error: { message: expect.any(String), type: 'service_unavailable', code: 'store_unavailable' },
    })
    expect(backend.seen).toHaveLength(1)
  })

  test('each worker says once that it is gone and once that it is back, without the password', async () => {
    const redis = await runningRedis({ password: PASSWORD })
    const cli = await servingOn(2, FOUR, { EDGE_REDIS_URL: redis.url, EDGE_REDIS_TIMEOUT_MS: '3000' })
    await redis.stop()
    await until(() => cli.logged('redis_unavailable').length === 2)
    await redis.start()
    await until(() => cli.logged('redis_available').length === 2)
    await cli.stop()
    for (const event of ['redis_unavailable', 'redis_available']) {
      expect(
        cli
          .logged(event)
          .map(({ worker }) => worker)
          .sort(),
      ).toEqual([1, 2])
    }
    expect(cli.stdout + cli.stderr).not.toContain(PASSWORD)
  })
})

describeWithRedis('an event loop of ours that is late', () => {
  test('is not held against Redis: all is answered by it', async () => {
    const redis = await runningRedis()
    const rules = [bucketRule('many', [], 100, HARDLY_ANY)]
    const timeoutMs = 150
    const env = { EDGE_REDIS_TIMEOUT_MS: String(timeoutMs), EDGE_REDIS_FAILURE_MODE: 'closed' }
    const edge = await sharing(redis.url, { bundle: bundle(1, policy('p', { rules })), env })
    const answers = Array.from({ length: ASKED }, () => edge.decide())
    let isDone = false
    const all = Promise.all(answers).finally(() => {
      isDone = true
    })
    // Whatever is under way between two turns waits in the socket for twice as long as it may.
    for (let turn = 0; !isDone && turn < 30; turn++) {
      await new Promise(setImmediate)
      standStill(2 * timeoutMs)
    }
    expect(admitted(await all)).toBe(ASKED)
    expect(await answersBy(edge)).toEqual({ redis: ASKED, failureMode: 0 })
    expect(edge.log.filter(({ event }) => event === 'redis_unavailable')).toEqual([])
  })
})

/** One instance behind a gate to a Redis with a password, in trouble, and what is true of every trouble. */
class Outage {
  readonly edge: Edge
  readonly #gate: TcpGate
  readonly #redis: RedisServer
  readonly #fault: Fault
  readonly #mode: string

  private constructor(edge: Edge, gate: TcpGate, redis: RedisServer, fault: Fault, mode: string) {
    this.edge = edge
    this.#gate = gate
    this.#redis = redis
    this.#fault = fault
    this.#mode = mode
  }

  static async begin(mode: string, fault: Fault, owner: Owner): Promise<Outage> {
    const redis = await runningRedis({ password: PASSWORD }, owner)
    const gate = await gateTo(redis.port, owner)
    const env = { EDGE_REDIS_TIMEOUT_MS: String(TIMEOUT_MS), EDGE_REDIS_FAILURE_MODE: mode }
    const edge = await sharing(`redis://:${PASSWORD}@${gate.address}`, { bundle: FOUR, env }, owner)
    expect(remaining(await edge.decide())).toBe(LIMIT - 1)
    expect(await hasRedis(edge)).toBe(true)
    await fault.begin(gate, redis)
    return new Outage(edge, gate, redis, fault, mode)
  }

  /** Some at once, while the trouble may not have been noticed yet, then the rest. */
  async ask() {
    const half = Array.from({ length: ASKED / 2 })
    const first = await Promise.all(half.map(() => this.edge.decide()))
    const then = await Promise.all(half.map(() => this.edge.decide()))
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
    const changes = ['open', 'closed'].map((to) => this.edge.metric(`edge_redis_circuit_changes_total{to="${to}"}`))
    const [opened, closed] = await Promise.all(changes)
    expect(closed).toBe(opened)
    const node = this.#gate.address
    const told = this.edge.log.filter(({ event }) => String(event).startsWith('redis_'))
    // Once each, unless the machine stood still for longer than the timeout when Redis was back.
    const oneOutage = [
      { event: 'redis_unavailable', node, worker: 1, failure_mode: this.#mode, reason: expect.any(String) },
      {
        event: 'redis_available',
        node,
        worker: 1,
        reason: 'it answers',
        away_ms: expect.any(Number),
        msg: `the circuit to ${node} is closed: it answers`,
      },
    ]
    expect(told).toMatchObject(Array.from({ length: opened! }, () => oneOutage).flat())
    expect(JSON.stringify(this.edge.log)).not.toContain(PASSWORD)
  }

  get #circuit(): string {
    return `edge_redis_circuit_open{node="${this.#gate.address}"}`
  }
}
