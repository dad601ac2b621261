import { describe, expect, test } from 'vitest'
import { counted, SECRET, spend, warningBundle, warnings } from '../../support/bundles/warning-bundle.ts'
import { CHAT, HELLO } from '../../support/llm/llm-proxy.ts'
import { moneyProxy } from '../../support/llm/money-proxy.ts'
import { scriptedLlm } from '../../support/llm/scripted-llm.ts'
import { runningRedis } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { twoSharing } from '../../support/redis/sharing-edge.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'

describe('a budget that is nearly spent', () => {
  test('is logged and counted once for each percentage, and names the caller by a digest', async () => {
    const clock = new ManualClock()
    const edge = await running({ clock, bundle: warningBundle(1) })
    for (const cost of ['7.999999999', '0.000000001', '1', '0.5', '0.5', '1']) {
      await spend(edge, cost)
      clock.advance(1000)
    }
    expect(warnings(edge)).toMatchObject([
      { event: 'budget_warning', policy: 'money', rule: 'dollars', percent: 80, unlogged: 0, level: 40 },
      { event: 'budget_warning', policy: 'money', rule: 'dollars', percent: 95, unlogged: 0 },
    ])
    const callers = warnings(edge).map(({ caller }) => caller)
    expect(callers[0]).toMatch(/^[0-9a-f]{16}$/)
    expect(callers[1]).toBe(callers[0])
    expect(JSON.stringify(edge.log)).not.toContain(SECRET)
    expect([await counted(edge, 80), await counted(edge, 95)]).toEqual([1, 1])
  })

  test('is told of again in the next window, and for each caller', async () => {
    const clock = new ManualClock()
    const edge = await running({ clock, bundle: warningBundle(1, undefined, { period: '1h' }) })
    await spend(edge, '9')
    await spend(edge, '9', 'blue')
    clock.advance(3_600_000)
    await spend(edge, '9')
    expect(await counted(edge, 80)).toBe(3)
  })

  test('is told of by the settlement that charges more than was reserved', async () => {
    const backend = await scriptedLlm()
    const proxy = await moneyProxy(backend, { budget: 10, config: { warn_at_percent: [80] } })
    const answer = proxy.post(CHAT, { model: 'big', messages: HELLO, max_tokens: 10 })
    const call = await backend.next()
    expect(warnings(proxy.edge)).toEqual([])
    call.answer(200, { usage: { prompt_tokens: 3, completion_tokens: 450 } })
    await answer
    await proxy.untilQuiet()
    expect(warnings(proxy.edge)).toMatchObject([{ percent: 80 }])
  })
})

describeWithRedis('instances on one Redis', () => {
  test('tell of it once together', async () => {
    const { url } = await runningRedis()
    const edges = await twoSharing(url, { bundle: warningBundle(1) })
    for (let i = 0; i < 20; i++) await spend(edges[i % 2]!, '0.5')
    const told = await Promise.all(edges.flatMap((edge) => [counted(edge, 80), counted(edge, 95)]))
    expect([told[0]! + told[2]!, told[1]! + told[3]!]).toEqual([1, 1])
  })
})
