import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { bucketRule, bundle, jwt, llmRule, policy } from '../support/bundles/bundles.ts'
import { Edge } from '../support/service/edge.ts'
import type { Fields } from '../support/service/http.ts'
import { ManualClock } from '../support/service/manual-clock.ts'
import { debugFacts, logIn, SECRET_ENV } from './debug-login.ts'

/** Specification: Authentication 5 and 6; what an operator with a debug session sees, and nobody else. */

let edge: Edge
let cookie: string

beforeAll(async () => {
  const selector = { pathPrefix: '/api' }
  const perUser = ['jwt:sub', 'header:x-plan']
  edge = await Edge.start({
    clock: new ManualClock(),
    env: SECRET_ENV,
    bundle: bundle(
      1,
      policy('wide-policy', { selector, rules: [bucketRule('wide-rule', [], 1000)] }),
      policy('user-policy', { selector, rules: [bucketRule('user-rule', perUser, 2)] }),
      policy('trial-policy', { mode: 'shadow', selector: { pathPrefix: '/trial' }, rules: [bucketRule('trial-rule', ['jwt:sub'], 1)] }),
      policy('chat-policy', {
        selector: { pathPrefix: '/chat' },
        rules: [llmRule('chat-rule', ['jwt:sub'], { tokens_per_minute: 10, max_completion_tokens: 10 })],
      }),
    ),
  })
  cookie = (await logIn(edge)).pair
})

afterAll(() => edge.stop())

function caller(sub: string): Fields {
  const token: readonly [string, string] = ['Authorization', `Bearer ${jwt({ sub })}`]
  return [token, ['X-Plan', 'gold']]
}

/** The debug headers of so many answers to one caller. */
async function factsFor(sub: string, uri: string, times: number): Promise<Record<string, string>[]> {
  const facts: Record<string, string>[] = []
  for (let i = 0; i < times; i++) facts.push(debugFacts(await edge.decide({ uri, fields: [...caller(sub), ['Cookie', cookie]] })))
  return facts
}

async function valuesFor(header: string, sub: string, uri: string, times: number): Promise<(string | undefined)[]> {
  return (await factsFor(sub, uri, times)).map((facts) => facts[header])
}

describe('with a session', () => {
  test('[debug-1] X-Edge-Debug-Decision is what was decided', async () => {
    expect(await valuesFor('decision', 'ann', '/api', 3)).toEqual(['allow', 'allow', 'reject'])
  })

  test('[debug-2] X-Edge-Debug-Mode is the mode of the policy that decided', async () => {
    expect(await valuesFor('mode', 'ben', '/api', 1)).toEqual(['enforce'])
    expect(await valuesFor('mode', 'ben', '/trial', 2)).toEqual(['none', 'shadow'])
  })

  test('[debug-3] X-Edge-Debug-Reason is the reason code', async () => {
    expect(await valuesFor('reason', 'cora', '/api', 3)).toEqual(['all_rules_passed', 'all_rules_passed', 'token_bucket_exceeded'])
    expect(await valuesFor('reason', 'cora', '/chat', 2)).toEqual(['all_rules_passed', 'tpm_exceeded'])
    expect(await valuesFor('reason', 'cora', '/trial', 2)).toEqual(['all_rules_passed', 'token_bucket_exceeded'])
  })

  test('[debug-4] X-Edge-Debug-Policy is the policy that decided', async () => {
    expect(await valuesFor('policy', 'dan', '/api', 3)).toEqual(['user-policy', 'user-policy', 'user-policy'])
    expect(await valuesFor('policy', 'dan', '/trial', 2)).toEqual(['none', 'trial-policy'])
  })

  test('[debug-5] X-Edge-Debug-Rule is the rule that decided', async () => {
    expect(await valuesFor('rule', 'eve', '/api', 3)).toEqual(['user-rule', 'user-rule', 'user-rule'])
    expect(await valuesFor('rule', 'eve', '/chat', 2)).toEqual(['chat-rule', 'chat-rule'])
  })

  test('[debug-6] X-Edge-Debug-Latency-Us is a number of microseconds', async () => {
    // Every look at this clock takes 250 µs, and a latency cannot be had without two.
    class TickingClock extends ManualClock {
      override nowMs(): number {
        this.advance(0.25)
        return super.nowMs()
      }
    }
    const other = await Edge.start({ clock: new TickingClock(), env: SECRET_ENV, bundle: bundle(1) })
    try {
      const { pair } = await logIn(other)
      const latencyUs = debugFacts(await other.decide({ fields: [['Cookie', pair]] }))['latency-us']
      expect(latencyUs).toMatch(/^\d+$/)
      expect([250, 500, 750, 1000]).toContain(Number(latencyUs))
    } finally {
      await other.stop()
    }
  })

  test('[debug-7] X-Edge-Debug-Matched-Policies is how many policies cover the request', async () => {
    expect(await valuesFor('matched-policies', 'fay', '/api', 1)).toEqual(['2'])
    expect(await valuesFor('matched-policies', 'fay', '/trial', 1)).toEqual(['1'])
    expect(await valuesFor('matched-policies', 'fay', '/elsewhere', 1)).toEqual(['0'])
  })

  test('[debug-8] X-Edge-Debug-Descriptor-<N>-Key and -Value are what the rules were keyed by, counted from 1', async () => {
    const [facts] = await factsFor('gus', '/api', 1)
    const descriptors = Object.entries(facts!).filter(([name]) => name.startsWith('descriptor-'))
    expect(Object.fromEntries(descriptors)).toEqual({
      'descriptor-1-key': 'jwt:sub',
      'descriptor-1-value': 'gus',
      'descriptor-2-key': 'header:x-plan',
      'descriptor-2-value': 'gold',
    })
  })
})

describe('without a session', () => {
  test('[debug-9] no debug header is emitted, on allow, on reject and on a would-be reject', async () => {
    for (const uri of ['/api', '/trial']) {
      for (let i = 0; i < 3; i++) expect(debugFacts(await edge.decide({ uri, fields: caller('hal') }))).toEqual({})
    }
  })

  test('[debug-10] nothing on a 429 attributes it to a rule, nor to a policy but for the id that RateLimit carries', async () => {
    const asIda = { uri: '/api', fields: caller('ida') }
    expect(await edge.decideTimes(2, asIda)).toEqual([200, 200])
    const { status, headers, body } = await edge.decide(asIda)
    const { ratelimit, ...others } = headers
    expect([status, ratelimit, body]).toEqual([429, '"user-policy";r=0;t=1', ''])
    expect(JSON.stringify(headers)).not.toContain('user-rule')
    expect(JSON.stringify(others)).not.toContain('user-policy')
  })
})
