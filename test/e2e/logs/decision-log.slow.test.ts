import { describe, expect, test } from 'vitest'
import { offer } from '../../support/bundles/bundle-file.ts'
import { bundle, llmRule, policy } from '../../support/bundles/bundles.ts'
import { CALLER, lines, perCaller, start } from '../../support/service/limit-events.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { serving } from '../../support/service/running.ts'

describe('the log of the program', () => {
  test('is as silent as it is told', async () => {
    const cli = await serving({ EDGE_LOG_LEVEL: 'silent', EDGE_CONFIG_FILE: '/nowhere/bundle.json', EDGE_WORKERS: '1' })
    expect(await cli.stop()).toBe(0)
    expect(cli.stderr).toBe('')
  })

  test('at level warn tells of what is wrong and nothing else', async () => {
    const cli = await serving({ EDGE_LOG_LEVEL: 'warn', EDGE_CONFIG_FILE: '/nowhere/bundle.json', EDGE_WORKERS: '1' })
    expect(await cli.stop()).toBe(0)
    expect(cli.log.map(({ event }) => event)).toEqual(['bundle_unreadable'])
  })
})

describe('rejects', () => {
  test('of one rule leave no room out for those of another', async () => {
    const edge = await start(new ManualClock(), perCaller('p', 'enforce', '/api'), perCaller('q', 'enforce', '/other'))
    await edge.decideTimes(10, CALLER)
    await edge.decideTimes(2, { ...CALLER, uri: '/other' })
    expect(lines(edge)).toMatchObject([
      { policy: 'p', route: '/api' },
      { policy: 'q', route: '/other' },
    ])
  })

  test('of an LLM rule name the budget', async () => {
    const rule = llmRule('tokens', ['jwt:sub', 'ip:address'], { tokens_per_day: 5, max_completion_tokens: 10 })
    const clock = new ManualClock()
    const edge = await start(clock, policy('p', { rules: [rule] }))
    const fields = [
      ['Authorization', 'Bearer e30.eyJzdWIiOiJhIn0.'],
      ['X-Forwarded-For', '203.0.113.7'],
    ] as const
    expect((await edge.decide({ fields })).status).toBe(429)
    expect(lines(edge)).toMatchObject([{ event: 'reject', rule: 'tokens', reason: 'tpd_exceeded', limit_keys: ['jwt:sub', 'ip:address'] }])
  })
})

describe('would-rejects', () => {
  test('of several policies are logged each', async () => {
    const edge = await start(new ManualClock(), perCaller('p', 'shadow'), perCaller('q', 'shadow'))
    await edge.decideTimes(3, CALLER)
    expect(lines(edge)).toMatchObject([
      { event: 'would_reject', policy: 'p' },
      { event: 'would_reject', policy: 'q' },
    ])
  })

  test('are followed by rejects once the policy enforces', async () => {
    const edge = await start(new ManualClock(), perCaller('p', 'shadow'))
    await edge.decideTimes(3, CALLER)
    await offer(edge, bundle(2, perCaller('p', 'enforce')))
    await edge.decideTimes(3, CALLER)
    expect(lines(edge).map(({ event }) => event)).toEqual(['would_reject', 'reject'])
  })
})
