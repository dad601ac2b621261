import { describe, expect, onTestFinished, test } from 'vitest'
import { ADMIN_ENV, askAdmin } from '../../support/admin/admin-client.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { IdentityProvider } from '../../support/callers/identity-provider.ts'
import { providerEntry, providerHosts, teamToken } from '../../support/callers/known-callers.ts'
import { authorization, check } from '../../support/grpc/ext-authz.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { proxying } from '../../support/proxy/proxy.ts'
import { PROXY_WIRES } from '../../support/run/proxy-wire.ts'
import { askThrough, HTTP_DOORS } from '../../support/service/doors.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ask, type Fields } from '../../support/service/http.ts'
import { running } from '../../support/service/running.ts'

/** What most providers sign with takes long to make keys for: one of the ways has it, and the others what is made in a moment. */
const algorithmOf = (way: string): 'RS256' | 'ES256' => (way === WAYS[0]![0] ? 'RS256' : 'ES256')

const RULES = bundle(1, policy('p', { rules: [bucketRule('team', ['caller:team'], 2, 1e-6)] }))
const bearer = (token: string): Fields => [['Authorization', `Bearer ${token}`]]

/** Asks with the fields, and returns the status that the client gets. */
type Ask = (fields: Fields) => Promise<number>

/** Every way to ask, by its name: starts edge with `callers` and returns how to ask. */
const WAYS: readonly [string, (callers: object, env: Record<string, string>) => Promise<{ edge: Edge; askWith: Ask }>][] = [
  ...HTTP_DOORS.map((door): (typeof WAYS)[number] => [
    `the door ${door.name}`,
    async (callers, env) => {
      const edge = await running({ bundle: { ...RULES, callers }, env })
      return { edge, askWith: async (fields) => (await askThrough(door, edge.port, { host: 'a.test', fields })).status }
    },
  ]),
  [
    'ext_authz over gRPC',
    async (callers, env) => {
      const edge = await running({ bundle: { ...RULES, callers }, env: { ...env, EDGE_GRPC_PORT: '0' } })
      const client = authorization(edge.grpcPort)
      return { edge, askWith: async (fields) => (await check(client, { fields })).status }
    },
  ],
  ...PROXY_WIRES.map((wire): (typeof WAYS)[number] => [
    `the proxy with the wire ${wire}`,
    async (callers, env) => {
      const backend = await HttpBackend.start()
      const edge = await proxying(backend, { bundle: { ...RULES, callers }, env: { ...env, EDGE_PROXY_WIRE: wire } })
      return { edge, askWith: async (fields) => (await ask(edge.port, 'GET', '/', fields)).status }
    },
  ]),
]

describe.each(WAYS)('through %s,', (way, start) => {
  test('tokens of a real provider are verified, and their labels choose the budget', async () => {
    const provider = await IdentityProvider.start({ onTestFinished }, algorithmOf(way))
    const { askWith } = await start({ mode: 'enforce', jwt: [await providerEntry(provider)] }, providerHosts(provider))
    const [ada, bob, eve] = await Promise.all([
      teamToken(provider, 'ada', 'blue'),
      teamToken(provider, 'bob', 'blue'),
      teamToken(provider, 'eve', 'red'),
    ])
    const statuses: number[] = []
    for (const token of [ada, bob, ada, eve]) statuses.push(await askWith(bearer(token)))
    expect(statuses).toEqual([200, 200, 429, 200])
    const stranger = await provider.token({ audience: 'others' })
    const forged = `${eve.slice(0, -10)}AAAAAAAAAA`
    const refused: Fields[] = [[], bearer('x'), bearer(stranger), bearer(forged), [...bearer(eve), ...bearer(ada)], [['X-Api-Key', eve]]]
    for (const fields of refused) expect(await askWith(fields)).toBe(401)
  })

  test('an issued key is known by its labels at once, and unknown once it is revoked', async () => {
    const keys = { from: ['bearer', 'header:X-Team-Key'] }
    const { edge, askWith } = await start({ mode: 'enforce', keys }, ADMIN_ENV)
    const { json } = await askAdmin(edge.adminPort, 'POST', 'keys', { body: { labels: { team: 'blue' }, reason: 'a test' } })
    const inField: Fields = [['x-team-key', json.key]]
    const both: Fields = [...bearer(json.key), ...inField]
    expect([await askWith(inField), await askWith(both), await askWith(bearer(json.key))]).toEqual([200, 200, 429])
    const other = `edge_${'A'.repeat(43)}`
    for (const fields of [[], bearer(other), [...bearer(other), ...inField], [...inField, ...inField]] as Fields[]) {
      expect(await askWith(fields)).toBe(401)
    }
    await askAdmin(edge.adminPort, 'DELETE', `keys/${json.id}?reason=over`)
    expect(await askWith(inField)).toBe(401)
  })
})
