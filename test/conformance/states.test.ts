import { expect, onTestFinished, test } from 'vitest'
import { bucketRule, bundle, policy } from '../support/bundles/bundles.ts'
import { Edge, type EdgeOptions } from '../support/service/edge.ts'
import { ManualClock } from '../support/service/manual-clock.ts'
import { debugFacts, logIn, readCookie, SECRET_ENV } from './debug-login.ts'

/** Specification: States and transitions. Each test walks one service through its states. */

async function startEdge(options: EdgeOptions): Promise<Edge> {
  const edge = await Edge.start(options)
  onTestFinished(() => edge.stop())
  return edge
}

function limited(version: number, mode: 'shadow' | 'enforce'): object {
  return bundle(version, policy('limited', { mode, rules: [bucketRule('two', ['header:x-caller'], 2)] }))
}

test('[state-1] no bundle loaded: not ready, and stays so however often a decision is asked for', async () => {
  const edge = await startEdge({})
  for (let i = 0; i < 3; i++) {
    const { status, headers } = await edge.decide()
    expect([status, headers['x-edge-reason']]).toEqual([503, 'no_bundle_loaded'])
    expect((await edge.get('/readyz')).status).toBe(503)
  }
})

test('[state-2] the first bundle applied turns /readyz from 503 to 200, and decisions are made', async () => {
  const edge = await startEdge({ clock: new ManualClock() })
  expect((await edge.get('/readyz')).status).toBe(503)
  await edge.publish(limited(1, 'enforce'))
  expect((await edge.get('/readyz')).status).toBe(200)
  expect(await edge.decideTimes(3, { fields: [['X-Caller', 'ann']] })).toEqual([200, 200, 429])
})

test('[state-3] shadow becomes enforce with a higher bundle_version: rejects are enforced', async () => {
  const edge = await startEdge({ bundle: limited(1, 'shadow'), clock: new ManualClock() })
  const asAnn = { fields: [['X-Caller', 'ann']] as const }
  expect(await edge.decideTimes(4, asAnn)).toEqual([200, 200, 200, 200])
  await edge.publish(limited(2, 'enforce'))
  expect(await edge.decideTimes(4, asAnn)).toEqual([200, 200, 429, 429])
})

test('[state-4] enforce becomes shadow again: rejects are only simulated', async () => {
  const edge = await startEdge({ bundle: limited(1, 'enforce'), clock: new ManualClock() })
  const asAnn = { fields: [['X-Caller', 'ann']] as const }
  expect(await edge.decideTimes(3, asAnn)).toEqual([200, 200, 429])
  await edge.publish(limited(2, 'shadow'))
  expect(await edge.decideTimes(4, asAnn)).toEqual([200, 200, 200, 200])
  const simulated = 'edge_would_reject_total{policy="limited",rule="two",reason="token_bucket_exceeded"}'
  expect(await edge.metric(simulated)).toBe(2)
})

test('[state-5] a debug session is inactive until the correct secret opens it: 204 and Set-Cookie edge_dbg', async () => {
  const edge = await startEdge({ bundle: limited(1, 'enforce'), env: SECRET_ENV })
  expect(debugFacts(await edge.decide({ fields: [['Cookie', 'edge_dbg=made-up']] }))).toEqual({})
  const login = await edge.post('/v1/debug/session', [['X-Edge-Debug-Secret', SECRET_ENV.EDGE_DEBUG_SESSION_SECRET]])
  const { pair } = readCookie(login)
  expect([login.status, pair]).toEqual([204, expect.stringMatching(/^edge_dbg=.+/)])
  expect(debugFacts(await edge.decide({ fields: [['Cookie', pair]] }))).toMatchObject({ decision: 'allow' })
})

test('[state-6] logout makes an active session inactive and clears the cookie', async () => {
  const edge = await startEdge({ bundle: limited(1, 'enforce'), env: SECRET_ENV })
  const { pair } = await logIn(edge)
  const cleared = readCookie(await edge.post('/v1/debug/logout', [['Cookie', pair]]))
  expect([cleared.pair, cleared.attributes]).toEqual(['edge_dbg=', expect.arrayContaining(['Max-Age=0'])])
  expect(debugFacts(await edge.decide({ fields: [['Cookie', pair]] }))).toEqual({})
})

test('[state-7] after 15 minutes an active session is inactive', async () => {
  const clock = new ManualClock()
  const edge = await startEdge({ bundle: limited(1, 'enforce'), env: SECRET_ENV, clock })
  const { pair } = await logIn(edge)
  clock.advance(15 * 60_000 - 1)
  expect(debugFacts(await edge.decide({ fields: [['Cookie', pair]] }))).toMatchObject({ decision: 'allow' })
  clock.advance(1)
  expect(debugFacts(await edge.decide({ fields: [['Cookie', pair]] }))).toEqual({})
})
