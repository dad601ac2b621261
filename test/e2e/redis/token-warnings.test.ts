import { expect, test } from 'vitest'
import { bundle, llmRule, policy } from '../../support/bundles/bundles.ts'
import { CHAT, fakeLlm, HELLO, HELLO_TOKENS, LlmProxy, proxyEnv } from '../../support/llm/llm-proxy.ts'
import { awayFromMidnight } from '../../support/redis/away-from-midnight.ts'
import { redisOfSuite } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { twoSharing } from '../../support/redis/sharing-edge.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'

const COMPLETION = 10 - HELLO_TOKENS

describeWithRedis("a day's tokens that two instances share", () => {
  const shared = redisOfSuite()

  test.each(['exact', 'leased'])('are warned of once at each share, with the labels of the request: %s', async (mode) => {
    await awayFromMidnight()
    const rule = llmRule('tokens', ['header:x-key'], { tokens_per_day: 100, warn_at_percent: [50, 90] })
    const edges = await twoSharing(shared().url, {
      bundle: { ...bundle(1, policy('llm', { rules: [rule] })), usage: { labels: ['header:x-team'] } },
      env: { ...proxyEnv(await fakeLlm({ tokens: COMPLETION })), EDGE_SHUTDOWN_MS: '0', EDGE_REDIS_MODE: mode },
    })
    const proxies = edges.map((edge) => new LlmProxy(edge, new ManualClock(), 0, 0))
    const fields = [
      ['X-Key', `k-${mode}`],
      ['X-Team', 'red'],
    ] as const
    const statuses: number[] = []
    for (let i = 0; i < 11; i++) {
      const proxy = proxies[i % 2]!
      statuses.push((await proxy.post(CHAT, { model: 'm', messages: HELLO, max_tokens: COMPLETION }, fields)).status)
      await proxy.untilQuiet()
    }
    expect(statuses).toEqual([...Array(10).fill(200), 429])
    const said = edges.flatMap((edge) => edge.logged('budget_warning'))
    expect(said.map(({ percent, labels }) => ({ percent, labels }))).toEqual(
      expect.arrayContaining([50, 90].map((percent) => ({ percent, labels: { 'header:x-team': 'red' } }))),
    )
    expect(said).toHaveLength(2)
  })
})
