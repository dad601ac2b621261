import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { bucketRule, bundle, concurrencyRule, llmRule, policy } from '../../../test/support/bundles/bundles.ts'
import { START_MS, simulated, simulating } from '../../../test/support/simulation/simulating.ts'
import { tokenCounts } from '../../llm/usage.ts'
import { PlainRequestView } from '../../request/view.ts'
import type { Simulation } from './simulation.ts'

const BUCKET = bundle(1, policy('p', { rules: [bucketRule('r', ['header:x-key'], 2)] }))
const HELD = bundle(1, policy('p', { rules: [concurrencyRule('r', [], 2, 8)] }))
const TOKENS = bundle(1, policy('p', { rules: [llmRule('r', [], { tokens_per_minute: 60, max_completion_tokens: 40 })] }))

async function statuses(simulation: Simulation, times: number, atMs: number, request = simulated(['x-key', 'a'])): Promise<number[]> {
  const all: number[] = []
  for (let i = 0; i < times; i++) all.push((await simulation.decide(request, atMs)).status)
  return all
}

describe('the clock', () => {
  test('time passes when a request comes later, and only then', async () => {
    const simulation = simulating(BUCKET)
    expect(await statuses(simulation, 3, START_MS)).toEqual([200, 200, 429])
    expect(await statuses(simulation, 2, START_MS + 1000)).toEqual([200, 429])
  })

  test('a request from the past is decided now: time does not go back', async () => {
    const simulation = simulating(BUCKET)
    await statuses(simulation, 2, START_MS + 5000)
    expect(await statuses(simulation, 1, START_MS)).toEqual([429])
    expect(simulation.nowMs).toBe(START_MS + 5000)
  })
})

describe('the response', () => {
  test('says who decided, and has the header fields of the server', async () => {
    const simulation = simulating(BUCKET)
    await statuses(simulation, 2, START_MS)
    expect(await simulation.decide(simulated(['X-Key', 'a']), START_MS)).toMatchObject({
      status: 429,
      reason: 'token_bucket_exceeded',
      policy: 'p',
      rule: 'r',
      headers: expect.arrayContaining(['Retry-After', '1', 'X-Edge-Reason', 'token_bucket_exceeded']),
    })
    expect(simulation.rejectedValues).toEqual(['a'])
  })

  test('the client of a log line is the last hop of the address', async () => {
    const simulation = simulating(bundle(1, policy('p', { rules: [bucketRule('r', ['ip:address'], 1)] })))
    const from = (client: string, fields: string[] = []) => simulation.decide(simulated(fields, { client }), START_MS)
    expect((await from('203.0.113.1')).status).toBe(200)
    expect((await from('203.0.113.2')).status).toBe(200)
    expect((await from('203.0.113.1')).status).toBe(429)
    expect((await from('10.0.0.1', ['X-Forwarded-For', '203.0.113.1'])).status).toBe(429)
    expect((await from('203.0.113.3', ['X-Forwarded-For', '203.0.113.1'])).status).toBe(200)
  })
})

describe('requests in flight', () => {
  test('in decision_service a hold ends after hold_seconds, since nobody settles', async () => {
    const simulation = simulating(HELD)
    expect(await statuses(simulation, 3, START_MS)).toEqual([200, 200, 429])
    expect(await statuses(simulation, 1, START_MS + 1000)).toEqual([429])
    expect(await statuses(simulation, 1, START_MS + 10_000)).toEqual([200])
  })

  test('in decision_service one with a usage is settled when the clock moves on', async () => {
    const simulation = simulating(HELD)
    const settled = simulated([], { usage: 'nothing' })
    expect(await statuses(simulation, 3, START_MS, settled)).toEqual([200, 200, 429])
    expect(await statuses(simulation, 3, START_MS + 1, settled)).toEqual([200, 200, 429])
  })

  test('in reverse_proxy those of one moment are in flight together, and end when the clock moves on', async () => {
    const simulation = simulating(HELD, { mode: 'reverse_proxy' })
    const request = simulated([], { host: 'h' })
    expect(await statuses(simulation, 3, START_MS, request)).toEqual([200, 200, 429])
    expect(await statuses(simulation, 3, START_MS + 1, request)).toEqual([200, 200, 429])
  })

  test('so do those that are decided by their view', () => {
    const simulation = simulating(HELD, { mode: 'reverse_proxy' })
    const view = new PlainRequestView({ method: 'GET', uri: '/' })
    const actions = [0, 0, 0, 1].map((laterMs) => simulation.decideView(view, START_MS + laterMs).action)
    expect(actions).toEqual(['allow', 'allow', 'reject', 'allow'])
  })
})

describe('reservations', () => {
  const ask = { method: 'POST', uri: '/v1/chat/completions', host: 'h', body: '{"max_tokens":40,"prompt":"12345678"}' }

  test('stay as they were taken where nobody says what was used', async () => {
    const simulation = simulating(TOKENS, { mode: 'reverse_proxy' })
    expect(await statuses(simulation, 2, START_MS, simulated([], ask))).toEqual([200, 429])
    expect(await statuses(simulation, 1, START_MS + 1, simulated([], ask))).toEqual([429])
  })

  test('are corrected to the usage when the clock moves on', async () => {
    const simulation = simulating(TOKENS, { mode: 'reverse_proxy' })
    const request = simulated([], { ...ask, usage: { tokens: tokenCounts(2, 3), isStreamed: false } })
    expect(await statuses(simulation, 2, START_MS, request)).toEqual([200, 429])
    const { headers } = await simulation.decide(request, START_MS + 1)
    expect(headers).toEqual(expect.arrayContaining(['RateLimit-Remaining', String(60 - 5 - 42)]))
  })
})

test('the fast way decides as the other one', () => {
  const limited = bundle(
    1,
    policy('p', { selector: { pathPrefix: '/api' }, rules: [bucketRule('r', ['header:x-key'], 2), bucketRule('all', [], 5, 2)] }),
    policy('s', { mode: 'shadow', rules: [bucketRule('r', ['header:x-key'], 1)] }),
  )
  const requests = fc.array(
    fc.record({ key: fc.constantFrom('a', 'b', undefined), uri: fc.constantFrom('/api', '/'), pauseMs: fc.nat(900) }),
  )
  return fc.assert(
    fc.asyncProperty(requests, async (all) => {
      const [fast, slow] = [simulating(limited), simulating(limited)]
      let atMs = START_MS
      for (const { key, uri, pauseMs } of all) {
        atMs += pauseMs
        const decision = fast.decideView(new PlainRequestView({ method: 'GET', uri, headers: { 'x-key': key } }), atMs)
        const response = await slow.decide(simulated(key === undefined ? [] : ['x-key', key], { uri }), atMs)
        expect([decision.reason, decision.action === 'refuse' ? undefined : decision.rule?.name]).toEqual([response.reason, response.rule])
      }
    }),
    { numRuns: 30 },
  )
})
