import { describe, expect, test } from 'vitest'
import { newKeyText } from '../../../src/callers/keys/issued-key.ts'
import { MAX_GUESSES } from '../../../src/callers/keys/issued-keys.ts'
import { ADMIN_ENV, askAdmin } from '../../support/admin/admin-client.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { proxying } from '../../support/proxy/proxy.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'

const BUNDLE = {
  ...bundle(1, policy('p', { rules: [bucketRule('team', ['caller:team'], 1_000_000, 1)] })),
  callers: { mode: 'enforce', keys: { from: ['bearer'] } },
}
const UNKNOWN = '401 unknown_caller'

type Ask = (key: string, address?: string) => Promise<string>

async function service(mode: string, env: Readonly<Record<string, string>>): Promise<{ readonly ask: Ask; readonly known: string }> {
  const isProxy = mode === 'reverse_proxy'
  // A minute must not end between two guesses, however slow the machine is.
  const options = { bundle: BUNDLE, env: { ...ADMIN_ENV, ...env }, clock: new ManualClock() }
  const edge: Edge = isProxy ? await proxying(await HttpBackend.start(), options) : await running(options)
  const known = (await askAdmin(edge.adminPort, 'POST', 'keys', { body: { labels: { team: 'search' }, reason: 'a test' } })).json.key
  const ask: Ask = async (key, address) => {
    const fields: [string, string][] = [['Authorization', `Bearer ${key}`]]
    if (address !== undefined) fields.push(['X-Forwarded-For', address])
    const { status, headers } = await (isProxy ? edge.get('/', fields) : edge.decide({ fields }))
    return status === 200 ? '200' : `${status} ${headers['x-edge-reason']}`
  }
  return { ask, known }
}

describe('guesses of keys', () => {
  test('by a client that spells another address each time are those of one address', async () => {
    const { ask, known } = await service('reverse_proxy', { EDGE_TRUSTED_PROXIES: '192.0.2.250' })
    const spelled = (i: number): string => (i % 2 === 0 ? `203.0.113.${i}` : `2001:db8:${i}::1, 192.0.2.${i}`)
    for (let i = 0; i < MAX_GUESSES; i++) expect(await ask(newKeyText(), spelled(i))).toBe(UNKNOWN)
    for (let i = 0; i < 5; i++) {
      expect(await ask(newKeyText(), spelled(MAX_GUESSES + i))).toBe('503 caller_check_busy')
      expect(await ask(known, spelled(i))).toBe('200')
    }
  })

  test.each([
    ['decision_service', '401 caller_check_busy'],
    ['reverse_proxy', '503 caller_check_busy'],
  ])('in %s are counted by the address that a trusted proxy names, or by its /64', async (mode, busy) => {
    const { ask, known } = await service(mode, { EDGE_TRUSTED_PROXIES: 'loopback' })
    const inNetwork = (i: number): string => `2001:db8:0:1::${i.toString(16)}`
    for (let i = 0; i < MAX_GUESSES; i++) expect(await ask(newKeyText(), inNetwork(i))).toBe(UNKNOWN)
    expect(await ask(newKeyText(), inNetwork(0xffff))).toBe(busy)
    expect(await ask(known, inNetwork(1))).toBe('200')
    expect(await ask(newKeyText(), '2001:db8:0:2::1')).toBe(UNKNOWN)
    expect(await ask(newKeyText(), '203.0.113.7')).toBe(UNKNOWN)
  })
})
