import { beforeEach, expect, test } from 'vitest'
import { runningFleet } from '../../support/fleet/fleet.ts'
import { CHAT, HELLO, HELLO_TOKENS, LlmProxy, proxyEnv } from '../../support/llm/llm-proxy.ts'
import { chatChunk, sse } from '../../support/llm/llm-streams.ts'
import { type ScriptedCall, type ScriptedLlm, scriptedLlm } from '../../support/llm/scripted-llm.ts'
import { StreamClient } from '../../support/llm/stream-client.ts'
import { awayFromMidnight } from '../../support/redis/away-from-midnight.ts'
import { redisOfSuite, runningRedis } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { bundleOf, loseRedis } from '../../support/redis/shared-token-budgets.ts'
import { AMPLE_TIMEOUT, sharing } from '../../support/redis/sharing-edge.ts'
import { gateTo } from '../../support/redis/tcp-gate.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { until, untilStill } from '../../support/until.ts'

const DAY_TOKENS = 2000
const BUNDLE = bundleOf({ tokens_per_day: DAY_TOKENS, reserve: { first: 100, step: 100 } })
const ASKED = { stream: true, messages: HELLO, max_tokens: 20_000 }
const USED = 'edge_llm_tokens_used_total{policy="llm",rule="budget"}'
/** Twenty tokens in each of five events, by itself a read. */
const TEXT = Array.from({ length: 5 }, () => chatChunk({ content: 'x'.repeat(80) })).join('')
const READ_TOKENS = 100

async function proxyTo(llm: ScriptedLlm, url: string, env: Readonly<Record<string, string>> = {}): Promise<LlmProxy> {
  const edge = await sharing(url, { bundle: BUNDLE, env: { EDGE_SHUTDOWN_MS: '0', ...proxyEnv(llm), ...env } })
  return new LlmProxy(edge, new ManualClock(), 0, DAY_TOKENS)
}

describeWithRedis('a budget that grows in Redis', () => {
  const shared = redisOfSuite()
  beforeEach(awayFromMidnight)

  test('is shared by the streams of two proxies, which are cut where it ends', async () => {
    const llm = await scriptedLlm()
    const proxies = [await proxyTo(llm, shared().url), await proxyTo(llm, shared().url)]
    const clients = proxies.flatMap((proxy) => [proxy.open(CHAT, ASKED), proxy.open(CHAT, ASKED)])
    const calls: ScriptedCall[] = []
    for (const _ of clients) calls.push(await llm.next())
    for (const call of calls) call.begin()
    await Promise.all(calls.map((call) => call.writeUntilAborted(TEXT)))
    for (const client of clients) {
      await client.untilClosed()
      expect(client.data.at(-2)).toMatchObject({ choices: [{ finish_reason: 'length' }] })
    }
    let used = 0
    for (const proxy of proxies) {
      await proxy.untilQuiet()
      used += await proxy.edge.metric(USED)
      expect(await untilLogged(proxy.edge, 'truncated', 2)).toMatchObject([{ cause: 'budget' }, { cause: 'budget' }])
    }
    expect(used).toBeGreaterThan(DAY_TOKENS - clients.length * READ_TOKENS)
  })

  test('does not hold up a stream whose last read uses up all that it has', async () => {
    const llm = await scriptedLlm()
    const proxy = await proxyTo(llm, shared().url)
    const client = proxy.open(CHAT, ASKED)
    const call = await llm.next()
    call.begin()
    // Two chunks in one read: the first uses up what is reserved, and the second is the stream's end.
    await Promise.all([call.write(`${TEXT}${TEXT}`), call.write(sse('[DONE]'))])
    await client.untilText('[DONE]')
    call.end('')
    await client.untilClosed()
    expect(client.outcome).toBe('whole')
  })

  test('refuses more while Redis is away, where that means to reject', async () => {
    const gate = await gateTo(shared().port)
    const llm = await scriptedLlm()
    const proxy = await proxyTo(llm, `redis://${gate.address}`, { EDGE_REDIS_FAILURE_MODE: 'closed' })
    const client = proxy.open(CHAT, ASKED)
    const call = await llm.next()
    call.begin()
    await client.untilHead()
    await loseRedis(proxy.edge, gate)
    await call.writeUntilAborted(TEXT)
    await client.untilClosed()
    expect(client.data.at(-2)).toMatchObject({ choices: [{ finish_reason: 'length' }] })
    expect(await untilLogged(proxy.edge, 'truncated')).toMatchObject([{ cause: 'budget' }])
    await until(async () => (await proxy.edge.metric('edge_llm_growth_total{policy="llm",rule="budget",outcome="unavailable"}')) > 0)
    await gate.accept()
  })

  test.each([
    ['local', 'by the own count of its instance', true],
    ['open', 'always', false],
  ])('grows while Redis is away, where that means %s: %s', async (mode, _, isCut) => {
    const gate = await gateTo(shared().port)
    const llm = await scriptedLlm()
    const proxy = await proxyTo(llm, `redis://${gate.address}`, { EDGE_REDIS_FAILURE_MODE: mode })
    const client = proxy.open(CHAT, ASKED)
    const call = await llm.next()
    call.begin()
    await client.untilHead()
    await loseRedis(proxy.edge, gate)
    for (let sent = 0; sent < 2 * DAY_TOKENS && !call.isAborted; sent += READ_TOKENS) await call.write(TEXT)
    if (!isCut) call.end(sse('[DONE]'))
    await client.untilClosed()
    const seen = client.text.match(/x{80}/g)!.length * 20
    if (isCut) {
      expect(client.data.at(-2)).toMatchObject({ choices: [{ finish_reason: 'length' }] })
      expect(seen).toBeLessThanOrEqual(DAY_TOKENS)
      expect(seen).toBeGreaterThan(DAY_TOKENS - READ_TOKENS)
    } else expect([seen, client.outcome]).toEqual([2 * DAY_TOKENS, 'whole'])
    await gate.accept()
  })

  test('waits for Redis for as long as that takes: the backend, which is not read meanwhile, is not to blame', async () => {
    const gate = await gateTo(shared().port)
    const llm = await scriptedLlm()
    const proxy = await proxyTo(llm, `redis://${gate.address}`, { EDGE_BACKEND_IDLE_TIMEOUT_MS: '100' })
    const clients = [proxy.open(CHAT, ASKED), proxy.open(CHAT, ASKED)]
    const calls = [await llm.next(), await llm.next()]
    gate.hold('answers')
    // The one that says something is the first, and waits before the other one is silent.
    calls[0]!.begin()
    await calls[0]!.write(TEXT)
    await until(() => clients.some(({ text }) => text.match(/x{80}/g)?.length === 5))
    const [client, silent] = clients[0]!.text === '' ? [clients[1]!, clients[0]!] : [clients[0]!, clients[1]!]
    calls[0]!.end(`${TEXT}${sse('[DONE]')}`)
    calls[1]!.begin()
    await silent.untilClosed()
    expect(silent.outcome).toBe('broken')
    gate.release()
    await client.untilClosed()
    expect([client.outcome, client.data.at(-1)]).toEqual(['whole', '[DONE]'])
    expect(client.text.match(/x{80}/g)).toHaveLength(10)
  })

  test.each([
    ['which cuts its stream', ''],
    ['whose stream has ended', sse('[DONE]')],
  ])('a step that is granted during a shutdown, %s, is awaited and given back', async (_, end) => {
    const redis = await runningRedis()
    const llm = await scriptedLlm()
    const env = { ...proxyEnv(llm), EDGE_REDIS_URL: redis.url, EDGE_SHUTDOWN_MS: '0', ...AMPLE_TIMEOUT }
    const [instance] = (await runningFleet({ size: 1, bundle: BUNDLE, env })).instances
    const client = new StreamClient(instance!.port, CHAT, JSON.stringify(ASKED))
    const call = await llm.next()
    call.begin()
    await client.untilHead()
    redis.pause()
    // All that it began with is used up, so that it has asked for more when the last event is here.
    await call.write(`${TEXT.replace(/x{80}(?=[^x]*$)/, 'y'.repeat(80))}${end}`)
    await client.untilText('y'.repeat(80))
    const exited = instance!.stop()
    await client.untilClosed()
    await untilStill(() => instance!.log.length)
    redis.resume()
    expect(await exited).toBe(0)
    const reject = await (await proxyTo(llm, redis.url)).post(CHAT, { messages: HELLO, max_tokens: DAY_TOKENS })
    expect(JSON.parse(reject.body).error.message).toContain(` and ${DAY_TOKENS - HELLO_TOKENS - READ_TOKENS} are available`)
  })
})
