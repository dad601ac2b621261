import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { bucketRule, bundle, llmRule, policy, rateRule, windowRule } from '../../support/bundles/bundles.ts'
import { CHAT, fakeLlm, HELLO, HELLO_TOKENS, proxyEnv } from '../../support/llm/llm-proxy.ts'
import { StreamClient } from '../../support/llm/stream-client.ts'
import { valuesOf } from '../../support/proxy/proxy.ts'
import { Load } from '../../support/service/load.ts'
import { thisSuite } from '../../support/service/suite-owner.ts'
import { original } from '../../support/service/wire.ts'
import { until } from '../../support/until.ts'
import { Crowd } from '../../support/workers/crowd.ts'
import { loadOnAll, servingOn, type Workers } from '../../support/workers/workers.ts'

const WORKERS = 3
const LANES = 64
/** So few tokens a second that none comes back while the test runs. */
const HARDLY_ANY = 0.0001

describe('on all workers', () => {
  const rules = [bucketRule('own', ['header:x-caller'], 500, HARDLY_ANY), bucketRule('all', [], 700, HARDLY_ANY)]
  const policies = [
    policy('one', { selector: { pathPrefix: '/one' }, rules: [bucketRule('ten', ['header:x-caller'], 10, HARDLY_ANY)] }),
    policy('quota', {
      selector: { pathPrefix: '/quota' },
      rules: [windowRule('quota', [], { limit: 30, period: '1y', timezone: 'Asia/Kathmandu', cost: 3 })],
    }),
    policy('debt', { selector: { pathPrefix: '/debt' }, rules: [rateRule('debt', [], { rate: '10/day', cost: 6, when_over: 'charge' })] }),
    policy('many', { selector: { pathPrefix: '/many' }, rules }),
  ]
  const suite = thisSuite()
  let cli: Workers
  beforeAll(async () => {
    cli = await servingOn(WORKERS, bundle(1, ...policies), {}, suite)
  })

  test('a limit of 10 admits 10 on 64 connections', async () => {
    const load = await loadOnAll(cli.port, original('/one', ['X-Caller', 'alice']), LANES)
    await until(() => load.total > 1000)
    await load.stop()

    expect(load.errors).toEqual([])
    expect(Object.fromEntries(load.statuses)).toEqual({ 200: 10, 429: load.total - 10 })
  })

  test.each([
    ['a quota of 30 admits 10 that cost 3', '/quota', 10],
    ['a limit of 10 that can be overdrawn admits 2 that cost 6', '/debt', 2],
  ])('%s on 64 connections', async (_, path, expected) => {
    const load = await loadOnAll(cli.port, original(path), LANES)
    await until(() => load.total > 1000)
    await load.stop()

    expect(load.errors).toEqual([])
    expect(Object.fromEntries(load.statuses)).toEqual({ 200: expected, 429: load.total - expected })
  })

  test('many limits at once admit what they should, each of them', async () => {
    const loads = ['alice', 'bob', 'carol'].map((caller) => new Load(cli.port, original('/many', ['X-Caller', caller]), 8))
    onTestFinished(async () => void (await Promise.all(loads.map((load) => load.stop()))))
    await until(() => loads.every((load) => load.count(429) > 0))
    await Promise.all(loads.map((load) => load.stop()))

    const admitted = loads.map((load) => load.count(200))
    expect(admitted.reduce((sum, count) => sum + count, 0)).toBe(700)
    expect(Math.max(...admitted)).toBeLessThanOrEqual(500)
    expect(loads.flatMap(({ errors }) => errors)).toEqual([])
  })
})

test('a budget of tokens covers as many calls as fit, whichever workers they come to', async () => {
  const fake = await fakeLlm()
  const [reserved, calls] = [HELLO_TOKENS + 100, 12]
  const budget = {
    tokens_per_minute: 1,
    burst_tokens: reserved * calls + reserved - 1,
    max_completion_tokens: 100,
    streaming: { enabled: false },
  }
  const cli = await servingOn(WORKERS, bundle(1, policy('llm', { rules: [llmRule('budget', [], budget)] })), proxyEnv(fake))
  const body = JSON.stringify({ model: 'm', stream: true, messages: HELLO })
  const streams = await Promise.all(Array.from({ length: LANES }, () => new StreamClient(cli.port, CHAT, body).untilClosed()))

  const statuses = streams.map(({ status }) => status)
  expect([statuses.filter((status) => status === 200).length, statuses.filter((status) => status === 429).length]).toEqual([
    calls,
    LANES - calls,
  ])
})

test('whichever worker rejects knows that a stream at another one has reserved the budget', async () => {
  const fake = await fakeLlm({ fail: 'stall', failAfterTokens: 1 })
  const rules = [llmRule('budget', [], { tokens_per_day: 1500, max_completion_tokens: 1000 })]
  const cli = await servingOn(WORKERS, bundle(1, policy('llm', { rules })), { ...proxyEnv(fake), EDGE_SHUTDOWN_MS: '0' })
  const crowd = await Crowd.gather(cli.port)
  const body = JSON.stringify({ model: 'm', stream: true, messages: HELLO })
  const stream = new StreamClient(cli.port, CHAT, body)
  await stream.untilText('the ')
  const question = `POST ${CHAT} HTTP/1.1\r\nHost: a\r\nContent-Length: ${body.length}\r\n\r\n${body}`
  const rejects = await crowd.ask(question)
  expect(rejects.map((answer) => valuesOf(answer, 'Retry-After')[0])).toEqual(Array(crowd.size).fill('5'))
  stream.abort()
})
