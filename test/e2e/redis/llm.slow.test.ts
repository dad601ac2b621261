import { beforeEach, expect, test } from 'vitest'
import { CHAT, HELLO, HELLO_TOKENS, LlmProxy, proxyEnv } from '../../support/llm/llm-proxy.ts'
import { scriptedLlm } from '../../support/llm/scripted-llm.ts'
import { awayFromMidnight } from '../../support/redis/away-from-midnight.ts'
import { redisOfSuite, runningRedis } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import {
  asked,
  BUDGET,
  bundleOf,
  DAY_TOKENS,
  finish,
  gatedProxies,
  loseRedis,
  MAX_COMPLETION,
  MINUTE_TOKENS,
  proxyTo,
  RESERVED,
  spent,
  twoProxies,
  USED,
} from '../../support/redis/shared-token-budgets.ts'
import { answersBy, hasRedis, sharing } from '../../support/redis/sharing-edge.ts'
import { countersIn } from '../../support/redis/stored-counters.ts'
import { gateTo } from '../../support/redis/tcp-gate.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { until } from '../../support/until.ts'

const DAY_MS = 86_400_000
const NOTHING = spent(0)

describeWithRedis('token budgets that two proxies share', () => {
  const shared = redisOfSuite()
  beforeEach(awayFromMidnight)

  test('they reserve at once no more than there is', async () => {
    const { one, other, llm } = await twoProxies(shared())
    const body = { model: 'm', messages: HELLO }
    const answers = Array.from({ length: 10 }, (_, i) => [one, other][i % 2]!.post(CHAT, body))
    const fitting = Math.floor(DAY_TOKENS / RESERVED)
    expect(await firstRejects(answers, 10 - fitting)).toEqual(new Array(10 - fitting).fill('tpd_exceeded'))
    for (let i = 0; i < fitting; i++) finish(await llm.next(), USED)
    const statuses = (await Promise.all(answers)).map(({ status }) => status)
    expect(statuses.filter((status) => status === 200)).toHaveLength(fitting)
    await until(async () => (await other.held()).day === fitting * USED)
    expect(await one.spent()).toEqual(spent(fitting * USED))
  })

  test('a call that used more than was reserved is charged for it', async () => {
    const { one, other, llm } = await twoProxies(shared())
    const { answer, call } = await asked(one, llm)
    finish(call, RESERVED + 400)
    await answer
    await until(async () => (await other.held()).day === RESERVED + 400)
    expect(await other.spent()).toEqual(spent(RESERVED + 400))
  })

  test('a settlement after its key expired lifts nothing above the burst', async () => {
    const redis = shared()
    const llm = await scriptedLlm()
    const budget = { tokens_per_minute: 600_000, burst_tokens: MINUTE_TOKENS, max_completion_tokens: MAX_COMPLETION }
    const edge = await sharing(redis.url, { bundle: bundleOf(budget), env: proxyEnv(llm) })
    const body = JSON.stringify({ model: 'm', messages: HELLO })
    const proxy = new LlmProxy(edge, new ManualClock(), MINUTE_TOKENS, 0)
    const answer = proxy.post(CHAT, body)
    const call = await llm.next()
    await until(async () => (await countersIn(redis)).length === 0)
    finish(call, USED)
    await answer
    await proxy.untilQuiet()
    const another = proxy.post(CHAT, body)
    finish(await llm.next(), 0)
    expect(Number((await another).headers['ratelimit-remaining'])).toBe(MINUTE_TOKENS - RESERVED)
  })

  test('an instance that ends with its last answer has settled it, however slow Redis is', async () => {
    const redis = shared()
    const gate = await gateTo(redis.port)
    const llm = await scriptedLlm()
    const url = `redis://${gate.address}`
    const edge = await sharing(
      url,
      { bundle: bundleOf(BUDGET), env: { EDGE_SHUTDOWN_MS: '600000', ...proxyEnv(llm) } },
      { onTestFinished() {} },
    )
    const { answer, call } = await asked(new LlmProxy(edge, new ManualClock(), MINUTE_TOKENS, DAY_TOKENS), llm)
    await redis.resetCalls()
    redis.pause()
    finish(call, USED)
    await answer
    const stopped = edge.stop()
    setTimeout(() => redis.resume(), 300)
    await stopped
    expect((await redis.calls()).get('hset')).toBe(1)
    expect(await (await proxyTo(llm, redis.url)).held()).toEqual(spent(USED))
  })

  test('a failed call gives all of it back', async () => {
    const { one, other, llm } = await twoProxies(shared())
    const { answer, call } = await asked(one, llm)
    call.answer(500, { error: {} })
    expect((await answer).status).toBe(500)
    await until(async () => (await other.held()).day === 0)
    expect(await other.spent()).toEqual(NOTHING)
  })
})

describeWithRedis(
  'a settlement after midnight',
  () => {
    test.each([
      ['gives nothing to the new day', USED],
      ['charges the new day for nothing', RESERVED + 400],
    ])('%s', async (_, used) => {
      const redis = await runningRedis({ hasSteppingClock: true })
      const { one, other, llm } = await twoProxies(redis)
      redis.stepClock(DAY_MS - (Date.now() % DAY_MS) - 25_000)
      const { answer, call } = await asked(one, llm)
      expect(await other.held()).toEqual(spent(RESERVED))
      redis.stepClock(35_000)
      // The new day has been begun by somebody else.
      const theirs = await asked(other, llm)
      expect((await one.held()).day).toBe(RESERVED)
      finish(call, used)
      await answer
      await until(async () => (await other.held()).minute === used + RESERVED)
      expect((await other.held()).day).toBe(RESERVED)
      finish(theirs.call, USED)
      await theirs.answer
      await until(async () => (await other.held()).day === USED)
    })
  },
  'libfaketime',
)

describeWithRedis('a reservation and an outage', () => {
  const shared = redisOfSuite()
  beforeEach(awayFromMidnight)

  test('taken without Redis: settled where it was taken, and Redis hears nothing of it', async () => {
    const { one, other, llm, gate } = await gatedProxies(shared())
    const theirs = await asked(other, llm)
    await loseRedis(one.edge, gate)
    const { answer, call } = await asked(one, llm)
    expect(await one.held()).toEqual(spent(RESERVED))
    await gate.accept()
    await until(() => hasRedis(one.edge))
    finish(call, USED)
    expect((await answer).status).toBe(200)
    await one.untilQuiet()
    // What is reserved there is theirs.
    expect([await one.held(), await other.held()]).toEqual([spent(RESERVED), spent(RESERVED)])
    finish(theirs.call, 0)
    await theirs.answer
    await until(async () => (await other.held()).day === 0)
    // By its own count it has spent what was used.
    expect([await one.held(), await other.held()]).toEqual([spent(USED), NOTHING])
    expect(await one.edge.metric('edge_redis_doubts_total{what="settlement"}')).toBe(0)
  })

  test('taken while all may pass: nothing was taken, and nothing is given back', async () => {
    const { one, other, llm, gate } = await gatedProxies(shared(), { EDGE_REDIS_FAILURE_MODE: 'open' })
    const first = await asked(other, llm)
    await loseRedis(one.edge, gate)
    const { answer, call } = await asked(one, llm)
    await gate.accept()
    await until(() => hasRedis(one.edge))
    finish(call, USED)
    await answer
    await one.untilQuiet()
    expect([await one.held(), await other.held()]).toEqual([spent(RESERVED), spent(RESERVED)])
    finish(first.call, USED)
    await first.answer
  })

  test('a client that goes away before Redis has answered pays nothing that it has not had', async () => {
    const { one, other, llm, gate } = await gatedProxies(shared())
    gate.hold('answers')
    const client = one.open(CHAT, { model: 'm', messages: HELLO })
    await until(async () => (await other.held()).day === RESERVED)
    client.abort()
    await client.untilClosed()
    gate.release()
    await until(async () => (await other.held()).day <= HELLO_TOKENS)
    expect((await one.spent()).minute).toBeLessThanOrEqual(HELLO_TOKENS)
    expect(llm.calls.length).toBeLessThanOrEqual(1)
  })

  test('a settlement whose reply is lost was done once and is not repeated; the unknown outcome is counted', async () => {
    const { one, other, llm, gate } = await gatedProxies(shared())
    const { answer, call } = await asked(one, llm)
    const blown = gate.cutAfterAnswerBytes(0)
    finish(call, USED)
    await answer
    await blown
    await until(() => hasRedis(one.edge))
    expect(await one.edge.metric('edge_redis_doubts_total{what="settlement"}')).toBe(1)
    expect(await one.held()).toEqual(spent(USED))
    expect(await other.held()).toEqual(spent(USED))
  })

  test('a settlement that never arrived, for all that is known, is not repeated: too little is left, and the unknown outcome is counted', async () => {
    const { one, other, llm, gate } = await gatedProxies(shared())
    const { answer, call } = await asked(one, llm)
    const blown = gate.cutBeforeNextRequest()
    finish(call, USED)
    await answer
    await blown
    await until(() => hasRedis(one.edge))
    expect(await one.edge.metric('edge_redis_doubts_total{what="settlement"}')).toBe(1)
    expect(await one.held()).toEqual(spent(RESERVED))
    expect(await other.held()).toEqual(spent(RESERVED))
  })

  test('Redis has forgotten it: what comes back is not more than there can be', async () => {
    const redis = shared()
    const { one, other, llm } = await twoProxies(redis)
    const { answer, call } = await asked(one, llm)
    await redis.command('FLUSHALL')
    finish(call, USED)
    await answer
    await one.untilQuiet()
    expect(await other.held()).toEqual(NOTHING)
    // By its own count.
    expect(await one.held()).toEqual(spent(USED))
    expect((await answersBy(one.edge)).failureMode).toBe(0)
  })

  test('a day in Redis that holds no number counts as lost, and nobody falls back for it', async () => {
    const redis = shared()
    const { one, other, llm } = await twoProxies(redis)
    const { answer, call } = await asked(one, llm)
    const damage = `for _, key in ipairs(KEYS) do
      if redis.call('TYPE', key).ok == 'hash' then
        for _, field in ipairs(redis.call('HKEYS', key)) do redis.call('HSET', key, field, 'much') end
        redis.call('HSET', key, 'foreign', 1)
      end
    end`
    const keys = await countersIn(redis)
    await redis.command('EVAL', damage, keys.length, ...keys)
    finish(call, USED)
    await answer
    await one.untilQuiet()
    const next = await asked(one, llm)
    expect((await other.held()).day).toBe(USED + RESERVED)
    finish(next.call, USED)
    await next.answer
    await until(async () => (await other.held()).day === 2 * USED)
    expect([(await answersBy(one.edge)).failureMode, (await answersBy(other.edge)).failureMode]).toEqual([0, 0])
  })
})

/** The reasons of the first so many that were rejected, while others still wait for the backend. */
function firstRejects(answers: readonly ReturnType<LlmProxy['post']>[], count: number): Promise<unknown[]> {
  return new Promise((resolve) => {
    const reasons: unknown[] = []
    for (const answer of answers) {
      void answer.then(({ status, headers }) => {
        if (status === 429 && reasons.push(headers['x-edge-reason']) === count) resolve(reasons)
      })
    }
  })
}
