import { afterAll, beforeAll, expect, test } from 'vitest'
import { bucketRule, bundle, llmRule, policy } from '../support/bundles/bundles.ts'
import { type SteadyRequests, steadyRequests, untilAnsweredByRedis } from '../support/fleet/steady-requests.ts'
import { CHAT, HELLO, HELLO_TOKENS, proxyEnv } from '../support/llm/llm-proxy.ts'
import { scriptedLlm } from '../support/llm/scripted-llm.ts'
import { RedisCluster } from '../support/redis/redis-cluster.ts'
import type { RedisServer } from '../support/redis/redis-server.ts'
import { describeWithRedis } from '../support/redis/redis-suite.ts'
import { admitted, answersBy, HARDLY_ANY, hasRedis, remaining, sharing, twoSharing } from '../support/redis/sharing-edge.ts'
import { storedBucket } from '../support/redis/stored-counters.ts'
import type { Edge, OriginalRequest } from '../support/service/edge.ts'
import { ask } from '../support/service/http.ts'
import { untilLogged } from '../support/service/until-logged.ts'
import { until } from '../support/until.ts'

const LIMIT = 10
const RULES = ['a', 'b', 'c', 'd', 'e']
const STEADY_LIMIT = 100

describeWithRedis('counters in a cluster', () => {
  let cluster: RedisCluster
  let url: string
  let prefixes = 0

  beforeAll(async () => {
    cluster = await RedisCluster.start()
    url = `redis+cluster://${cluster.addresses.join(',')}`
  })

  afterAll(() => cluster?.close())

  /** An empty cluster, as far as an instance can see. */
  const fresh = (env: Readonly<Record<string, string>> = {}) => ({ EDGE_REDIS_PREFIX: `edge${prefixes++}:`, ...env })

  test('rules in different slots are taken together or not at all, and the headers tell of the one that binds', async () => {
    const env = fresh()
    const wide = RULES.map((name) => bucketRule(name, [], LIMIT, HARDLY_ANY))
    const edge = await sharing(url, { bundle: bundle(1, policy('p', { rules: [...wide, bucketRule('narrow', [], 1, HARDLY_ANY)] })), env })
    const first = await edge.decide()
    expect(first.headers).toMatchObject({ 'ratelimit-limit': '1', 'ratelimit-remaining': '0' })
    const homes = await Promise.all((await cluster.masters()).map((node) => countersOf(node, env)))
    expect(homes.flat()).toHaveLength(6)
    // Else nothing is tried here.
    expect(homes.filter((keys) => keys.length > 0).length).toBeGreaterThan(1)

    for (let i = 0; i < 5; i++) {
      const { status, headers } = await edge.decide()
      expect(status).toBe(429)
      expect(headers).toMatchObject({ 'x-edge-reason': 'token_bucket_exceeded', 'ratelimit-limit': '1', 'ratelimit-remaining': '0' })
      expect(headers['retry-after']).toBe(headers['ratelimit-reset'])
    }
    await edge.publish(bundle(2, policy('p', { rules: wide })))
    // What the rejects took was given back, for it comes before this on each connection.
    expect(remaining(await edge.decide())).toBe(LIMIT - 2)
    for (const node of await cluster.masters()) {
      const levels = await Promise.all((await countersOf(node, env)).map((key) => storedBucket(node, key)))
      for (const { level } of levels) expect([0, LIMIT - 2]).toContain(Math.floor(level))
    }
    expect(await edge.metric('edge_redis_doubts_total{what="give_back"}')).toBe(0)
    expect((await answersBy(edge)).failureMode).toBe(0)
  })

  test('two instances that are asked at once admit each of many limits together', async () => {
    const rules = [bucketRule('own', ['header:x-caller'], 6, HARDLY_ANY), bucketRule('all', [], 15, HARDLY_ANY)]
    const edges = await twoSharing(url, { bundle: bundle(1, policy('p', { rules })), env: fresh() })
    const callers = ['alice', 'bob', 'carol', 'dave']
    const asked = callers.flatMap((caller) => Array.from({ length: 8 }, (_, i) => ({ caller, edge: edges[i % 2]! })))
    const answers = await Promise.all(asked.map(async ({ caller, edge }) => ({ caller, ...(await edge.decide(from(caller))) })))
    for (const caller of callers) {
      expect(admitted(answers.filter((answer) => answer.caller === caller))).toBeLessThanOrEqual(6)
    }
    // Two that try for the last token at once may both be told no; one after the other, all is handed out.
    const rest: number[] = []
    for (const caller of callers) rest.push(...(await edges[0].decideTimes(8, from(caller))))
    expect(admitted(answers) + admitted(rest)).toBe(15)
    for (const edge of edges) expect((await answersBy(edge)).failureMode).toBe(0)
  })

  test('a hash tag in the prefix puts all counters on one node', async () => {
    const env = { EDGE_REDIS_PREFIX: '{one-place}:' }
    const rules = RULES.map((name) => bucketRule(name, ['header:x-caller'], LIMIT, HARDLY_ANY))
    const edge = await sharing(url, { bundle: bundle(1, policy('p', { rules })), env })
    for (const caller of ['alice', 'bob', 'carol']) expect(remaining(await edge.decide(from(caller)))).toBe(LIMIT - 1)
    const counts = await Promise.all((await cluster.masters()).map(async (node) => (await countersOf(node, env)).length))
    expect(counts.sort((a, b) => a - b)).toEqual([0, 0, 15])
  })

  test('a slot that moves while it is asked for: the limit stays exact, and nobody falls back', async () => {
    const env = fresh()
    const edges = await twoSharing(url, { bundle: byCaller(LIMIT), env })
    const [source, target] = (await cluster.masters()) as [RedisServer, RedisServer]
    const caller = await callerOn(source, edges[0], env)
    const [key] = await countersOf(source, env)
    const slot = await cluster.slotOf(key!)
    const statuses: number[] = [200] // to find out where the caller is
    const askBoth = async () => {
      for (const edge of edges) statuses.push((await edge.decide(from(caller))).status)
    }
    await cluster.beginMigration(slot, target)
    await askBoth() // the key is where it was
    await cluster.moveKeys(slot, target)
    await askBoth() // ASK
    await cluster.endMigration(slot, target)
    await askBoth() // MOVED
    await askBoth()
    await askBoth()
    expect(admitted(statuses)).toBe(LIMIT)
    expect(statuses.slice(LIMIT)).toEqual([429])
    for (const edge of edges) {
      expect((await answersBy(edge)).failureMode).toBe(0)
      expect(edge.log.filter(({ event }) => event === 'redis_unavailable')).toEqual([])
    }
    await cluster.migrateSlot(slot, source)
  })

  test('keys of one decision that are apart while their slot moves: the failure mode decides, and only for so long', async () => {
    const env = { EDGE_REDIS_PREFIX: '{on-the-way}:' }
    const rules = RULES.map((name) => bucketRule(name, [], LIMIT, HARDLY_ANY))
    const edge = await sharing(url, { bundle: bundle(1, policy('p', { rules })), env })
    expect(remaining(await edge.decide())).toBe(LIMIT - 1)
    const slot = await cluster.slotOf(env.EDGE_REDIS_PREFIX)
    const source = await cluster.masterOf(slot)
    const target = (await cluster.masters()).find((node) => node !== source)!
    await cluster.beginMigration(slot, target)
    const [key] = await countersOf(source, env)
    await source.command('MIGRATE', '127.0.0.1', target.port, key!, 0, 5000)
    expect(remaining(await edge.decide())).toBe(LIMIT - 2)
    expect(await answersBy(edge)).toEqual({ redis: 1, failureMode: 1 })
    await cluster.moveKeys(slot, target)
    await cluster.endMigration(slot, target)
    expect(remaining(await edge.decide())).toBe(LIMIT - 3)
    expect(await answersBy(edge)).toEqual({ redis: 2, failureMode: 1 })
    expect(edge.log.filter(({ event }) => event === 'redis_unavailable')).toEqual([])
  })

  test('a master that hands over under steady requests: no error, and no instance admits more than the limit', async () => {
    const env = fresh()
    const edges = await twoSharing(url, { bundle: byCaller(STEADY_LIMIT), env })
    const [master] = await cluster.masters()
    const caller = await callerOn(master!, edges[0], env)
    const steady = steadyRequests(edges, from(caller))
    await untilPartlyUsed(steady)
    await cluster.failOver(await slotOn(cluster, master!, env))
    await untilAnsweredByRedis(edges)
    await steady.untilUsedUp()
    await steady.stop()
    expectSteady(steady)
  })

  test('a settlement that meets a master which has handed over reaches the new one', async () => {
    const llm = await scriptedLlm()
    const env = { EDGE_REDIS_PREFIX: '{settled}:', ...proxyEnv(llm) }
    const budget = { tokens_per_day: 2000, max_completion_tokens: 497 }
    const options = { bundle: bundle(1, policy('llm', { rules: [llmRule('budget', [], budget)] })), env }
    const edge = await sharing(url, options)
    const answer = ask(edge.port, 'POST', CHAT, [], JSON.stringify({ model: 'm', messages: HELLO }))
    const call = await llm.next()
    const slot = await cluster.slotOf(env.EDGE_REDIS_PREFIX)
    const spentToday = async () => {
      const master = await cluster.masterOf(slot)
      const [key] = await countersOf(master, env)
      return Number(((await master.command('HVALS', key!)) as string[])[0])
    }
    expect(await spentToday()).toBe(HELLO_TOKENS + 497)
    await cluster.failOver(slot)
    call.answer(200, { usage: { prompt_tokens: 0, completion_tokens: 100, total_tokens: 100 } })
    expect((await answer).status).toBe(200)
    await until(async () => (await spentToday()) === 100)
    expect(await edge.metric('edge_redis_doubts_total{what="settlement"}')).toBe(0)
  })

  test('a master that dies: its keys alone fall to the failure mode, no limit is exceeded, and its replica takes over', async () => {
    const env = fresh()
    const local = await twoSharing(url, { bundle: byCaller(STEADY_LIMIT), env })
    const closed = await sharing(url, { bundle: byCaller(100), env: fresh({ EDGE_REDIS_FAILURE_MODE: 'closed' }) })
    const [victim, survivor] = (await cluster.masters()) as [RedisServer, RedisServer]
    const caller = await callerOn(victim, local[0], env)
    const elsewhere = await callerOn(survivor, local[0], env)
    // The other instance has another prefix, and so other callers there.
    const closedEnv = { EDGE_REDIS_PREFIX: `edge${prefixes - 1}:` }
    const closedCaller = await callerOn(victim, closed, closedEnv)
    const closedElsewhere = await callerOn(survivor, closed, closedEnv)

    const steady = steadyRequests(local, from(caller))
    await untilPartlyUsed(steady)
    const dead = await cluster.killMaster(await slotOn(cluster, victim, env))
    await until(async () => (await closed.decide(from(closedCaller))).status === 503)
    const answer = await closed.decide(from(closedCaller))
    if (answer.status === 503) expect(answer.headers['x-edge-reason']).toBe('store_unavailable')
    expect(await closed.decideTimes(5, from(closedElsewhere))).toEqual([200, 200, 200, 200, 200])
    for (const edge of local) expect((await edge.decide(from(elsewhere))).status).toBe(200)
    expect(await untilLogged(closed, 'redis_unavailable')).toMatchObject([{ node: victim.address }])

    await cluster.replaced(dead)
    await until(async () => (await closed.decide(from(closedCaller))).status === 200)
    await untilAnsweredByRedis(local)
    await steady.untilUsedUp()
    await steady.stop()
    expectSteady(steady)
    await dead.server.start()
    await cluster.settled()
  })

  // The last one: masters that stand still may be replaced.
  test('a give-back with unknown outcome is not repeated, and counted', async () => {
    const env = fresh({ EDGE_REDIS_TIMEOUT_MS: '2000' })
    const rules = RULES.map((name) => bucketRule(name, [], LIMIT, HARDLY_ANY))
    const edge = await sharing(url, { bundle: bundle(1, policy('p', { rules })), env })
    await edge.decide()
    const homes: RedisServer[] = []
    for (const node of cluster.nodes)
      if ((await node.info('role')) === 'master' && (await countersOf(node, env)).length > 0) homes.push(node)
    const [granting, silent] = homes as [RedisServer, RedisServer]
    silent.pause()
    const answer = edge.decide()
    // Calls would not tell: an idle node is probed.
    await until(async () => (await levelsIn(granting, env)).some((level) => level < LIMIT - 1))
    granting.pause()
    expect((await answer).status).toBe(200)
    silent.resume()
    await until(async () => (await edge.metric('edge_redis_doubts_total{what="give_back"}')) > 0)
    granting.resume()
    await cluster.settled()
    await until(() => hasRedis(edge))
    // Taken twice, and given back at most once.
    for (const level of await levelsIn(granting, env)) expect([LIMIT - 2, LIMIT - 1]).toContain(Math.floor(level))
  })
})

/** Nothing comes back: not in the test's time, and not in the time that answers take, for which an own count allows. */
function byCaller(burst: number): object {
  return bundle(1, policy('p', { rules: [bucketRule('r', ['header:x-caller'], burst, HARDLY_ANY)] }))
}

function from(caller: string): OriginalRequest {
  return { fields: [['X-Caller', caller]] }
}

async function countersOf(node: RedisServer, { EDGE_REDIS_PREFIX = 'edge:' }: Readonly<Record<string, string>>): Promise<string[]> {
  const keys = (await node.command('KEYS', `${EDGE_REDIS_PREFIX}*`)) as string[]
  return keys.filter((key) => /:[0-9a-f]{32}$/.test(key))
}

async function levelsIn(node: RedisServer, env: Readonly<Record<string, string>>): Promise<number[]> {
  const buckets = await Promise.all((await countersOf(node, env)).map((key) => storedBucket(node, key)))
  return buckets.map(({ level }) => level)
}

/** Somebody whose counter is on this node; it has been asked for once. */
async function callerOn(node: RedisServer, edge: Edge, env: Readonly<Record<string, string>>): Promise<string> {
  for (let i = 0; ; i++) {
    const before = (await countersOf(node, env)).length
    await edge.decide(from(`${node.port}-${i}`))
    if ((await countersOf(node, env)).length > before) return `${node.port}-${i}`
  }
}

/** Of a counter that is there. */
async function slotOn(cluster: RedisCluster, node: RedisServer, env: Readonly<Record<string, string>>): Promise<number> {
  const [key] = await countersOf(node, env)
  return cluster.slotOf(key!)
}

/** Something is left: a master that comes back could hand it out to who has used up its own share meanwhile. */
async function untilPartlyUsed({ byEdge }: SteadyRequests): Promise<void> {
  await until(() => byEdge.every(({ tokens }) => tokens > STEADY_LIMIT / 10))
}

function expectSteady({ statuses, byEdge }: SteadyRequests): void {
  expect([...statuses.keys()].sort()).toEqual([200, 429])
  for (const { tokens } of byEdge) expect(tokens).toBeLessThanOrEqual(STEADY_LIMIT)
}
