import { describe, expect, test } from 'vitest'
import { counterText } from '../../../console/amounts.ts'
import { leftWords } from '../../../console/callers/left-words.ts'
import { levelText } from '../../../src/cli/admin/counters.ts'
import { nearestTable } from '../../../src/cli/admin/top-text.ts'
import { ADMIN_ENV, askAdmin } from '../../support/admin/admin-client.ts'
import { budgetRule, bundle, llmRule, policy } from '../../support/bundles/bundles.ts'
import { CHAT, HELLO, proxyEnv } from '../../support/llm/llm-proxy.ts'
import { PRICES } from '../../support/llm/money-proxy.ts'
import { answeringLlm } from '../../support/llm/scripted-llm.ts'
import { runningRedis } from '../../support/redis/redis-server.ts'
import { ask } from '../../support/service/http.ts'
import { metric } from '../../support/service/metrics.ts'
import { running } from '../../support/service/running.ts'
import { until } from '../../support/until.ts'

const RULES = [
  llmRule('tokens', ['header:x-k'], { tokens_per_minute: 2_000_000, tokens_per_day: 1000 }),
  budgetRule('money', ['header:x-k'], { budget: 5, period: '1d', prices: 'main' }),
]
const BUNDLE = { ...bundle(1, policy('llm', { rules: RULES })), prices: PRICES }

describe.each(['memory', 'redis'])('counters in %s', (store) => {
  test('show by how much more than its limit a caller has used', async () => {
    const usage = { prompt_tokens: 400_000, completion_tokens: 1000, total_tokens: 401_000 }
    const backend = await answeringLlm(200, { model: 'big', choices: [], usage })
    const redis = store === 'redis' ? { EDGE_REDIS_URL: (await runningRedis()).url } : {}
    const edge = await running({ bundle: BUNDLE, env: { ...ADMIN_ENV, ...proxyEnv(backend), ...redis } })
    const post = () => ask(edge.port, 'POST', CHAT, [['X-K', 'alice']], JSON.stringify({ model: 'big', messages: HELLO, max_tokens: 10 }))
    expect((await post()).status).toBe(200)
    await until(async () => (await metric(edge.adminPort, 'edge_llm_tokens_used_total{policy="llm",rule="tokens"}')) > 0)

    const counters = async (rule: string) => {
      const body = { policy: 'llm', rule, values: { 'header:x-k': 'alice' } }
      return (await askAdmin(edge.adminPort, 'POST', 'counters', { body })).json.counters
    }
    await until(async () => (await counters('tokens'))[1].level < 0)
    const [, day] = await counters('tokens')
    expect(day).toMatchObject({ kind: 'day', level: -400_000, remaining: 0, limit: 1000 })
    expect(levelText(day)).toContain('0 of 1,000 tokens left today, 400,000 overdrawn')
    expect(counterText(day, 'tokens')).toBe('0 of 1,000 tokens left today, 400,000 tokens over')
    const [money] = await counters('money')
    expect(money.level).toBeLessThan(-10_000)

    const { nearest } = (await askAdmin(edge.adminPort, 'GET', 'top?policy=llm&rule=tokens')).json
    expect(nearest).toMatchObject([{ kind: 'day', level: -400_000, remaining: 0, left_percent: 0 }])
    expect(nearestTable(nearest)).toMatch(/^ +-400,000 +1,000 +0% /m)
    expect(leftWords(nearest[0])).toBe('0 of 1,000 tokens per day, 400,000 tokens over')

    const refused = await post()
    expect([refused.status, refused.headers['ratelimit-remaining']]).toEqual([429, '0'])
    expect(refused.body).toContain('and 0 are available')
  })
})
