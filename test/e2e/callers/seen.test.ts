import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { ADMIN_ENV, askAdmin } from '../../support/admin/admin-client.ts'
import { explained } from '../../support/admin/explained.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { CALLERS, GoodCallers } from '../../support/callers/good-callers.ts'
import type { Edge } from '../../support/service/edge.ts'
import type { Fields } from '../../support/service/http.ts'
import { running, scratchDirectory } from '../../support/service/running.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { until } from '../../support/until.ts'

const RULES = bundle(1, policy('p', { rules: [bucketRule('team', ['caller:team', 'jwt:sub'], 100)] }))
const bearer = (token: string): Fields => [['Authorization', `Bearer ${token}`]]
const SECRET = 'correct horse battery'

function started(callers: object, env: Record<string, string> = {}): Promise<Edge> {
  return running({ bundle: { ...RULES, callers: { ...CALLERS, ...callers } }, env, callerReaderOf: () => new GoodCallers() })
}

describe('operators see', () => {
  test('how many callers were verified, and why the others were not', async () => {
    const edge = await started({ mode: 'enforce' })
    for (const token of ['good:ada:blue', 'later:ada:blue', 'expired', 'expired', 'keys_unavailable'])
      await edge.decide({ fields: bearer(token) })
    const counts = await Promise.all(
      ['verified', 'expired', 'keys_unavailable'].map((outcome) => edge.metric(`edge_callers_total{outcome="${outcome}"}`)),
    )
    expect(counts).toEqual([2, 2, 1])
    expect(await edge.metric('edge_refused_requests_total{reason="unknown_caller"}')).toBe(2)
    const [line] = await untilLogged(edge, 'refused')
    expect(line).toMatchObject({ status: 401, reason: 'unknown_caller', detail: 'expired' })
    expect(JSON.stringify(edge.log)).not.toContain('Bearer')
  })

  test('whom shadow mode would refuse, in a metric, in the log and as an event, while nobody is refused', async () => {
    const edge = await started({ mode: 'shadow', except_paths: ['/health'] })
    expect((await edge.decide({ fields: bearer('signature') })).status).toBe(200)
    expect((await edge.decide({ uri: '/health' })).status).toBe(200)
    expect((await edge.decide({ fields: bearer('good:ada:blue') })).status).toBe(200)
    expect(await untilLogged(edge, 'would_refuse')).toEqual([
      expect.objectContaining({ reason: 'unknown_caller', detail: 'signature', status: 401 }),
    ])
    expect(await edge.metric('edge_would_refuse_total{reason="unknown_caller"}')).toBe(1)
    expect(edge.logged('refused')).toEqual([])
  })

  test('who the caller is, or why nobody knows, in an explanation, and never the token', async () => {
    const edge = await started({ mode: 'enforce' }, ADMIN_ENV)
    const of = (token: string) => explained(edge.adminPort, { headers: { authorization: `Bearer ${token}` } })
    const good = await of('good:ada:blue')
    expect(good).toMatchObject({ status: 200, caller: { id: 'okta:ada', labels: { team: 'blue' }, problem: null } })
    expect(good.policies[0].rules[0].descriptors).toEqual([
      { key: 'caller:team', value: 'blue' },
      { key: 'jwt:sub', value: 'ada' },
    ])
    expect(await of('audience')).toMatchObject({
      action: 'refuse',
      status: 401,
      reason: 'unknown_caller',
      headers: { 'WWW-Authenticate': 'Bearer error="invalid_token"' },
      caller: { id: null, labels: {}, problem: 'audience' },
    })
    expect(JSON.stringify(good)).not.toContain('good:ada')
  })

  test('callers by their ids and labels in top and counters, and override the limits of one', async () => {
    const rules = [bucketRule('id', ['caller:id'], 1, 1e-6)]
    const published = { ...bundle(1, policy('p', { rules })), callers: CALLERS }
    const edge = await running({ bundle: published, env: ADMIN_ENV, callerReaderOf: () => new GoodCallers() })
    const values = { 'caller:id': 'okta:ada' }
    expect(await edge.decideTimes(2, { fields: bearer('good:ada:blue') })).toEqual([200, 429])
    expect((await askAdmin(edge.adminPort, 'GET', 'top')).json.rejected).toMatchObject([{ rule: 'id', values }])
    const query = 'counters?policy=p&rule=id&caller:id=okta:ada'
    expect((await askAdmin(edge.adminPort, 'GET', query)).json.counters).toMatchObject([{ remaining: 0 }])
    const body = { policy: 'p', rule: 'id', values, multiply: 3, until: '1h', reason: 'a test' }
    expect((await askAdmin(edge.adminPort, 'POST', 'overrides', { body })).status).toBe(201)
    expect((await edge.decide({ fields: bearer('good:ada:blue') })).status).toBe(200)
    expect(await edge.decideTimes(2, { fields: bearer('good:eve:blue') })).toEqual([200, 429])
  })

  test('the same in the headers of a debug session', async () => {
    const edge = await started({ mode: 'enforce' }, { EDGE_DEBUG_SESSION_SECRET: SECRET })
    const { headers } = await edge.post('/v1/debug/session', [['X-Edge-Debug-Secret', SECRET]])
    const cookie: Fields = [['Cookie', String(headers['set-cookie']).split(';', 1)[0]!]]
    const good = await edge.decide({ fields: [...cookie, ...bearer('good:ada:blue')] })
    expect(good.headers).toMatchObject({ 'x-edge-debug-caller': 'okta:ada' })
    const bad = await edge.decide({ fields: [...cookie, ...bearer('expired')] })
    expect([bad.status, bad.headers['x-edge-debug-caller-problem']]).toEqual([401, 'expired'])
    expect((await edge.decide({ fields: bearer('expired') })).headers).not.toHaveProperty('x-edge-debug-caller-problem')
  })

  test('in the decision log what rules read of the caller, and nothing else of it', async () => {
    const file = join(await scratchDirectory(), 'decisions.jsonl')
    const edge = await started({}, { EDGE_DECISION_LOG: file })
    await edge.decide({ fields: bearer('good:ada:blue') })
    await edge.decide({ fields: bearer('expired') })
    let lines: string[] = []
    await until(async () => {
      lines = (await readFile(file, 'utf8').catch(() => '')).split('\n').filter((line) => line !== '')
      return lines.length === 2
    })
    expect(lines.map((line) => JSON.parse(line).caller)).toEqual([
      { labels: { team: 'blue' }, claims: { sub: 'ada' } },
      { problem: 'expired' },
    ])
    expect(lines.join()).not.toMatch(/okta|Bearer|authorization/)
  })
})
