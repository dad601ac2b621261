import { expect, onTestFinished, test } from 'vitest'
import { ADMIN_ENV, adminPortOf, askAdmin } from '../../support/admin/admin-client.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { bearer, statusesOf, statusOf } from '../../support/callers/asking-workers.ts'
import { IdentityProvider } from '../../support/callers/identity-provider.ts'
import { providerEntry, providerHosts, teamToken } from '../../support/callers/known-callers.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { mortalEdge } from '../../support/workers/mortal-edge.ts'
import { servingOn } from '../../support/workers/workers.ts'

const RULES = bundle(1, policy('p', { rules: [bucketRule('team', ['caller:team'], 1_000_000, 1)] }))

test('a worker that takes the place of a dead one knows the tokens and keys that the dead one knew, without asking the issuer again', async () => {
  const provider = await IdentityProvider.start({ onTestFinished })
  const callers = { mode: 'enforce', jwt: [await providerEntry(provider)], keys: {} }
  const mortal = await mortalEdge(1, { bundle: { ...RULES, callers }, env: { ...ADMIN_ENV, ...providerHosts(provider) } })
  const { json } = await askAdmin(mortal.edge.adminPort, 'POST', 'keys', { body: { labels: { team: 'blue' }, reason: 'a test' } })
  const token = await teamToken(provider, 'ada', 'blue')
  const statuses = async (): Promise<number[]> => {
    const found: number[] = []
    for (const credential of [token, json.key, `${token}x`]) found.push(await statusOf(mortal.port, bearer(credential)))
    return found
  }
  expect(await statuses()).toEqual([200, 200, 401])
  await mortal.host.terminate(1)
  await mortal.untilReplaced(1)
  expect(await statuses()).toEqual([200, 200, 401])
  expect(provider.keySetFetches).toBe(1)
})

test('a key that operators issue is known on every worker, and unknown once they revoke it', async () => {
  const edge = await servingOn(2, { ...RULES, callers: { mode: 'enforce', keys: {} } }, ADMIN_ENV)
  const adminPort = adminPortOf(edge)
  const { json } = await askAdmin(adminPort, 'POST', 'keys', { body: { labels: { team: 'blue' }, reason: 'a test' } })
  expect(await statusesOf(edge.port, bearer(json.key))).toEqual(Array(30).fill(200))
  const change = { labels: { team: 'red' }, reason: 'moved' }
  await askAdmin(adminPort, 'PATCH', `keys/${json.id}`, { body: change })
  expect(await statusesOf(edge.port, bearer(json.key))).toEqual(Array(30).fill(200))
  const red = await askAdmin(adminPort, 'GET', 'counters?policy=p&rule=team&caller:team=red')
  expect(red.json.counters[0].remaining).toBeLessThanOrEqual(1_000_000 - 30)
  await askAdmin(adminPort, 'DELETE', `keys/${json.id}?reason=over`)
  expect(await statusesOf(edge.port, bearer(json.key))).toEqual(Array(30).fill(401))
  await untilLogged(edge, 'key_revoked')
  expect(edge.stdout + edge.stderr).not.toContain(json.key)
})
