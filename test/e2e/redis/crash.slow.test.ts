import { beforeEach, expect, test } from 'vitest'
import { ADMIN_ENV, adminPortOf, askAdmin } from '../../support/admin/admin-client.ts'
import { budgetRule, bundle, llmRule, policy } from '../../support/bundles/bundles.ts'
import { CHAT, HELLO, HELLO_TOKENS, proxyEnv } from '../../support/llm/llm-proxy.ts'
import { chatChunk } from '../../support/llm/llm-streams.ts'
import { PRICES } from '../../support/llm/money-proxy.ts'
import { type ScriptedLlm, scriptedLlm } from '../../support/llm/scripted-llm.ts'
import { StreamClient } from '../../support/llm/stream-client.ts'
import { awayFromMidnight } from '../../support/redis/away-from-midnight.ts'
import { runningCluster } from '../../support/redis/redis-cluster.ts'
import { type RedisServer, redisOfSuite } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { AMPLE_TIMEOUT } from '../../support/redis/sharing-edge.ts'
import type { Cli } from '../../support/service/cli.ts'
import { type Owner, thisTest } from '../../support/service/running.ts'
import { KeptCounters } from '../../support/state/kept-counters.ts'
import { until } from '../../support/until.ts'

const MAX = 60_000
const BUDGET = 1_000_000
const STREAMS = 10
/** Tokens that each stream has passed. */
const PASSED = 150
const ASKED = { model: 'big', stream: true, messages: HELLO, max_tokens: MAX }
const RULES = [
  llmRule('whole', [], { tokens_per_day: BUDGET, tokens_per_minute: 2 * BUDGET }),
  llmRule('growing', [], { tokens_per_day: BUDGET, reserve: { first: 100, step: 100 } }),
  llmRule('keep', [], { tokens_per_day: BUDGET, without_usage: 'keep' }),
  budgetRule('money', [], { budget: 9_000_000, period: '1mo', prices: 'main' }),
]
const BUNDLE = { ...bundle(1, policy('llm', { rules: RULES })), prices: PRICES }
const RESERVED = STREAMS * (HELLO_TOKENS + MAX)
const SEEN = STREAMS * (HELLO_TOKENS + PASSED)
/** Hundredths: an input token costs one, an output token two. */
const COST = STREAMS * (HELLO_TOKENS + 2 * PASSED)
const RETURNED = { whole: SEEN, growing: SEEN, keep: RESERVED, money: COST }

async function used(edge: Cli): Promise<Record<string, number>> {
  const found: Record<string, number> = {}
  for (const { name } of RULES as { name: string }[]) {
    const { counters } = (await askAdmin(adminPortOf(edge), 'GET', `counters?policy=llm&rule=${name}`)).json
    const { limit, level } = counters.at(-1)
    found[name] = limit - level
  }
  return found
}

interface Crash {
  readonly first: Cli
  readonly other: Cli
  readonly llm: ScriptedLlm
  readonly restart: () => Promise<Cli>
}

/** Streams at the first of two instances, of which Redis knows what they have been sent. */
async function streaming(url: string, records: () => Promise<number>, owner: Owner): Promise<Crash> {
  const llm = await scriptedLlm()
  const env = { ...ADMIN_ENV, ...AMPLE_TIMEOUT, ...proxyEnv(llm), EDGE_REDIS_URL: url, EDGE_WORKERS: '2' }
  const [kept, idle] = [await KeptCounters.of(owner, BUNDLE), await KeptCounters.of(owner, BUNDLE)]
  const [first, other] = [await kept.serve(env), await idle.serve(env)]
  const clients = Array.from({ length: STREAMS }, () => new StreamClient(first.port, CHAT, JSON.stringify(ASKED)))
  await until(() => llm.calls.length === STREAMS)
  for (const call of llm.calls) {
    call.begin()
    await call.write(chatChunk({ content: 'abcd' }).repeat(PASSED))
  }
  for (const client of clients) await client.untilText('abcd')
  await until(async () => (await records()) === STREAMS)
  expect(await used(other)).toMatchObject({ whole: RESERVED, keep: RESERVED })
  return { first, other, llm, restart: () => kept.serve(env) }
}

/** The records of the counter that has most of them. */
async function recordsIn(nodes: readonly RedisServer[]): Promise<number> {
  const sum = new Map<string, number>()
  for (const node of nodes) {
    for (const key of (await node.command('KEYS', 'edge:open:*')) as string[]) {
      const counter = key.slice(0, key.indexOf('}'))
      // An empty one was settled while a report of it was on its way.
      const records = ((await node.command('HVALS', key)) as string[]).filter((record) => record !== '')
      sum.set(counter, (sum.get(counter) ?? 0) + records.length)
    }
  }
  return Math.max(0, ...sum.values())
}

/** The instance is killed, and does not come back until another one has noticed. */
async function crashed(url: string, nodes: () => Promise<readonly RedisServer[]>, owner: Owner): Promise<void> {
  const { first, other, restart } = await streaming(url, async () => recordsIn(await nodes()), owner)
  await first.stop('SIGKILL')
  expect(await used(other)).toMatchObject({ whole: RESERVED })
  await until(() => other.logged('open_reservations_returned').length === 2)
  const second = await restart()
  for (const edge of [other, second]) expect(await used(edge)).toEqual(RETURNED)
  const sums = other.logged('open_reservations_returned')
  // Each request in the two counters of the first rule, and in one of the others; what is kept is not given back.
  expect(sums.reduce((sum, { records }) => sum + Number(records), 0)).toBe(4 * STREAMS)
  expect(second.logged('open_reservations_returned')).toEqual([])
}

describeWithRedis('an instance that is killed in the middle of requests', () => {
  const shared = redisOfSuite()
  beforeEach(awayFromMidnight)

  test('has what they had reserved given back by another one, except for what they had been sent, and once', async (t) => {
    await crashed(shared().url, async () => [shared()], t)
  })

  test('in a cluster, too', async (t) => {
    const cluster = await runningCluster(t)
    await crashed(`redis://${cluster.addresses.join(',')}`, () => cluster.masters(), t)
  })

  test('if it was only stopped, charges what its requests have used when they are over', async () => {
    const { first, other, llm } = await streaming(shared().url, () => recordsIn([shared()]), thisTest)
    first.process.kill('SIGSTOP')
    await until(() => other.logged('open_reservations_returned').length === 2)
    expect(await used(other)).toEqual(RETURNED)
    first.process.kill('SIGCONT')
    // What the first one has used is just what it had reserved.
    const completions = llm.calls.map((_, i) => (i === 0 ? HELLO_TOKENS + MAX - 1000 : 2000))
    for (const [i, call] of llm.calls.entries()) {
      const usage = { prompt_tokens: 1000, completion_tokens: completions[i]!, total_tokens: 1000 + completions[i]! }
      await call.write(`data: ${JSON.stringify({ choices: [], usage })}\n\ndata: [DONE]\n\n`)
      call.end()
    }
    const completion = completions.reduce((sum, each) => sum + each, 0)
    const tokens = STREAMS * 1000 + completion
    await until(async () => (await used(other))['growing'] === tokens)
    expect(await used(other)).toEqual({ whole: tokens, growing: tokens, keep: tokens, money: STREAMS * 1000 + 2 * completion })
    await until(async () => (await recordsIn([shared()])) === 0)
    expect(await used(first)).toEqual(await used(other))
  })
})
