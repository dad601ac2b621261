import { afterAll, beforeAll, expect, test } from 'vitest'
import { bucketRule, bundle, llmRule, policy } from '../support/bundles/bundles.ts'
import { Edge } from '../support/service/edge.ts'
import { ManualClock } from '../support/service/manual-clock.ts'
import { untilLogged } from '../support/service/until-logged.ts'

/** Specification: Resources and their fields; policy bundle, policy and rule at work. */

let edge: Edge

beforeAll(async () => {
  edge = await Edge.start({
    clock: new ManualClock(),
    bundle: bundle(
      1,
      policy('wide', { selector: { pathPrefix: '/both' }, rules: [bucketRule('hundred', [], 100)] }),
      policy('narrow', { selector: { pathPrefix: '/both' }, rules: [bucketRule('three', [], 3)] }),
      policy('prefixed', { selector: { pathPrefix: '/reports' }, rules: [bucketRule('reports', [], 9)] }),
      policy('hosted', { selector: { pathPrefix: '/hosted', hosts: ['api.example.com'] }, rules: [bucketRule('hosted', [], 9)] }),
      policy('two-rules', {
        selector: { pathPrefix: '/rules' },
        rules: [bucketRule('by-user', ['header:x-user'], 2), bucketRule('by-team', ['header:x-team'], 3)],
      }),
      policy('pairs', { selector: { pathPrefix: '/pairs' }, rules: [bucketRule('pair', ['header:x-user', 'header:x-team'], 1)] }),
      policy('algorithms', {
        selector: { pathPrefix: '/algorithms' },
        rules: [
          bucketRule('plain', ['header:x-plain'], 7),
          llmRule('llm', ['header:x-llm'], { tokens_per_minute: 70, max_completion_tokens: 10 }),
        ],
      }),
    ),
  })
})

afterAll(() => edge.stop())

test('[bundle-1] all policies of the bundle that cover a request are enforced', async () => {
  expect(await edge.decideTimes(4, { uri: '/both' })).toEqual([200, 200, 200, 429])
})

test('[bundle-2] what the configuration source delivers is what is enforced', async () => {
  const limited = await Edge.start({ bundle: bundle(1, policy('p', { rules: [bucketRule('r', [], 20)] })) })
  try {
    expect((await limited.decide()).headers['ratelimit-limit']).toBe('20')
    await limited.publish(bundle(2, policy('p', { rules: [bucketRule('r', [], 30)] })))
    expect((await limited.decide()).headers['ratelimit-limit']).toBe('30')
  } finally {
    await limited.stop()
  }
})

test('[policy-1] id identifies the policy that decided', async () => {
  await edge.decide({ uri: '/reports' })
  const series = 'edge_decisions_total{action="allow",reason="all_rules_passed",policy="prefixed",route="/reports"}'
  expect(await edge.metric(series)).toBe(1)
})

test('[policy-2] selector.pathPrefix covers the path and what is below it, and nothing else', async () => {
  const limits: Record<string, string | undefined> = {}
  for (const uri of ['/reports', '/reports/2026', '/reports?y=2026', '/reportsx', '/', '/x/reports']) {
    limits[uri] = (await edge.decide({ uri })).headers['ratelimit-limit']
  }
  expect(limits).toEqual({
    '/reports': '9',
    '/reports/2026': '9',
    '/reports?y=2026': '9',
    '/reportsx': undefined,
    '/': undefined,
    '/x/reports': undefined,
  })
})

test('[policy-3] selector.hosts covers the hosts it lists, and no others', async () => {
  const inside = await edge.decide({ uri: '/hosted', host: 'api.example.com' })
  const outside = await edge.decide({ uri: '/hosted', host: 'www.example.com' })
  expect([inside.headers['ratelimit-limit'], outside.headers['ratelimit-limit']]).toEqual(['9', undefined])
})

test('[policy-4] where selector.hosts is used, a request without X-Original-Host is not decided', async () => {
  const { status, headers } = await edge.decide({ uri: '/hosted' })
  expect([status, headers['x-edge-reason']]).toEqual([400, 'missing_original_host'])
})

test('[policy-5] every rule of a policy limits', async () => {
  const of = (user: string, team: string) => ({
    uri: '/rules',
    fields: [
      ['X-User', user],
      ['X-Team', team],
    ] as const,
  })
  expect(await edge.decideTimes(3, of('ann', 'red'))).toEqual([200, 200, 429])
  expect(await edge.decideTimes(2, of('ben', 'red'))).toEqual([200, 429])
})

test('[rule-1] name tells the rule from others: it stands in the log line of what the rule rejects', async () => {
  const { uri, fields } = {
    uri: '/pairs',
    fields: [
      ['X-User', 'zoe'],
      ['X-Team', 'red'],
    ] as const,
  }
  expect(await edge.decideTimes(2, { uri, fields })).toEqual([200, 429])
  expect(await untilLogged(edge, 'reject')).toContainEqual(expect.objectContaining({ policy: 'pairs', rule: 'pair' }))
})

test('[rule-2] limit_keys together identify whose bucket it is', async () => {
  const of = (user: string, team: string) => ({
    uri: '/pairs',
    fields: [
      ['X-User', user],
      ['X-Team', team],
    ] as const,
  })
  expect(await edge.decideTimes(2, of('ann', 'red'))).toEqual([200, 429])
  expect(await edge.decideTimes(2, of('ann', 'blue'))).toEqual([200, 429])
  expect(await edge.decideTimes(2, of('ben', 'red'))).toEqual([200, 429])
  // the same characters, split elsewhere
  expect(await edge.decideTimes(2, of('an', 'nred'))).toEqual([200, 429])
})

test('[rule-3] algorithm token_bucket takes one token from its burst', async () => {
  const { headers } = await edge.decide({ uri: '/algorithms', fields: [['X-Plain', 'ann']] })
  expect([headers['ratelimit'], headers['ratelimit-limit']]).toEqual(['"algorithms";r=6;t=1', '7'])
})

test('[rule-4] algorithm token_bucket_llm takes the reservation from its budget', async () => {
  const { headers } = await edge.decide({ uri: '/algorithms', fields: [['X-Llm', 'ann']] })
  expect([headers['ratelimit'], headers['ratelimit-limit']]).toEqual(['"algorithms";r=60;t=9', '70'])
})
