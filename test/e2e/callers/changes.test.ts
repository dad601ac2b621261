import { describe, expect, onTestFinished, test } from 'vitest'
import { type Clock, systemClock } from '../../../src/time/clock.ts'
import { ADMIN_ENV, askAdmin } from '../../support/admin/admin-client.ts'
import { blockRule, bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { KeySetServer } from '../../support/callers/followed-key-sets.ts'
import { IdentityProvider } from '../../support/callers/identity-provider.ts'
import { providerEntry, providerHosts, teamToken } from '../../support/callers/known-callers.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { proxying } from '../../support/proxy/proxy.ts'
import type { Edge } from '../../support/service/edge.ts'
import type { Answer, Fields } from '../../support/service/http.ts'
import { running } from '../../support/service/running.ts'
import { until } from '../../support/until.ts'

const RULES = [bucketRule('team', ['caller:team'], 1000, 1)]
const bearer = (token: string): Fields => [['Authorization', `Bearer ${token}`]]
const enforcing = (entry: object, version = 1, rules: readonly object[] = RULES): object => ({
  ...bundle(version, policy('p', { rules })),
  callers: { mode: 'enforce', jwt: [entry] },
})

async function statusOf(edge: Edge, token: string): Promise<number> {
  return (await edge.decide({ fields: bearer(token) })).status
}

describe('a token that was verified', () => {
  test('is unknown in a bundle whose entry of that name has another issuer, or other audiences, and known again with the old entry', async () => {
    const [provider, other] = [await IdentityProvider.start({ onTestFinished }), await IdentityProvider.start({ onTestFinished })]
    const entry = await providerEntry(provider)
    const edge = await running({ bundle: enforcing(entry), env: providerHosts(provider, other) })
    const [token, others] = [await teamToken(provider, 'ada', 'blue'), await teamToken(other, 'ada', 'blue')]
    expect([await statusOf(edge, token), await statusOf(edge, others)]).toEqual([200, 401])
    await edge.publish(enforcing(await providerEntry(other), 2))
    expect([await statusOf(edge, token), await statusOf(edge, others)]).toEqual([401, 200])
    await edge.publish(enforcing({ ...entry, audiences: ['somebody else'] }, 3))
    expect([await statusOf(edge, token), await statusOf(edge, others)]).toEqual([401, 401])
    await edge.publish(enforcing(entry, 4))
    expect([await statusOf(edge, token), await statusOf(edge, others)]).toEqual([200, 401])
    const counts = await Promise.all(['issuer', 'audience'].map((outcome) => edge.metric(`edge_callers_total{outcome="${outcome}"}`)))
    expect(counts).toEqual([4, 1])
  })

  test('has the labels that the active bundle gives it', async () => {
    const provider = await IdentityProvider.start({ onTestFinished })
    const entry = await providerEntry(provider)
    const rules = [blockRule('block', { 'caller:team': 'team-blue' }), ...RULES]
    const edge = await running({ bundle: enforcing(entry, 1, rules), env: providerHosts(provider) })
    const token = await teamToken(provider, 'ada', 'blue')
    expect(await statusOf(edge, token)).toBe(403)
    await edge.publish(enforcing({ ...entry, labels: { team: { claim: 'sub' } } }, 2, rules))
    expect(await statusOf(edge, token)).toBe(200)
  })

  test('holds while its key is in the set, whatever else is added, and not once it is withdrawn', async () => {
    const provider = await IdentityProvider.start({ onTestFinished })
    const clock = new ShiftedClock()
    const edge = await running({ bundle: enforcing(await providerEntry(provider)), env: providerHosts(provider), clock })
    const old = await teamToken(provider, 'ada', 'blue')
    expect(await statusOf(edge, old)).toBe(200)
    provider.rotate('keep')
    const next = await teamToken(provider, 'ada', 'blue')
    expect([await statusOf(edge, next), await statusOf(edge, old)]).toEqual([200, 200])
    provider.rotate('withdraw')
    clock.shiftMs += 11 * 60_000
    await until(async () => (await statusOf(edge, old)) === 401)
    expect([await statusOf(edge, next), await statusOf(edge, await teamToken(provider, 'ada', 'blue'))]).toEqual([401, 200])
  })
})

describe('while the key set has never been read', () => {
  test.each(['decision_service', 'reverse_proxy'])('nobody gets in, in %s, and good tokens do once it is', async (mode) => {
    const provider = await IdentityProvider.start({ onTestFinished })
    const server = await KeySetServer.start()
    server.fail(500)
    const hosts = { EDGE_BACKEND_HOSTS: `${providerHosts(provider).EDGE_BACKEND_HOSTS},${new URL(server.url).host}` }
    const clock = new ShiftedClock()
    const options = { bundle: enforcing(await providerEntry(provider, { jwks_url: server.url })), env: hosts, clock }
    const isProxy = mode === 'reverse_proxy'
    const edge = isProxy ? await proxying(await HttpBackend.start(), options) : await running(options)
    const token = await teamToken(provider, 'ada', 'blue')
    const askWith = (fields: Fields): Promise<Answer> => (isProxy ? edge.get('/', fields) : edge.decide({ fields }))
    const { status, headers } = await askWith(bearer(token))
    expect([status, headers['x-edge-reason']]).toEqual([isProxy ? 503 : 401, 'caller_keys_unavailable'])
    expect((await askWith([])).status).toBe(401)
    const keys = await (await fetch(await provider.keySetUrl())).text()
    server.fail(200, keys)
    clock.shiftMs += 60_000
    await until(async () => (await askWith(bearer(token))).status === 200)
  })
})

describe('operators', () => {
  test('block callers by label, at once', async () => {
    const provider = await IdentityProvider.start({ onTestFinished })
    const edge = await running({ bundle: enforcing(await providerEntry(provider)), env: { ...providerHosts(provider), ...ADMIN_ENV } })
    const [blue, red] = [await teamToken(provider, 'ada', 'blue'), await teamToken(provider, 'eve', 'red')]
    expect([await statusOf(edge, blue), await statusOf(edge, red)]).toEqual([200, 200])
    const block = { policy: 'p', rule: 'team', values: { 'caller:team': 'team-blue' }, block: true, until: '1h', reason: 'a test' }
    expect((await askAdmin(edge.adminPort, 'POST', 'overrides', { body: block })).status).toBe(201)
    expect([await statusOf(edge, blue), await statusOf(edge, red)]).toEqual([403, 200])
  })

  test('cannot let strangers in by putting all policies in shadow mode', async () => {
    const provider = await IdentityProvider.start({ onTestFinished })
    const edge = await running({ bundle: enforcing(await providerEntry(provider)), env: { ...providerHosts(provider), ...ADMIN_ENV } })
    const body = { shadow_all: true, until: '1h', reason: 'a test' }
    expect((await askAdmin(edge.adminPort, 'POST', 'overrides', { body })).status).toBe(201)
    expect([(await edge.decide()).status, await statusOf(edge, 'x')]).toEqual([401, 401])
    expect(await statusOf(edge, await teamToken(provider, 'ada', 'blue'))).toBe(200)
  })
})

/** The system's clock; how long something takes is what the test says. */
class ShiftedClock implements Clock {
  shiftMs = 0

  nowMs(): number {
    return systemClock.nowMs() + this.shiftMs
  }

  wallMs(): number {
    return systemClock.wallMs()
  }
}
