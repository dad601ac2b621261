import { expect, test } from 'vitest'
import { bundle } from '../../support/bundles/bundles.ts'
import { KeySetServer } from '../../support/callers/followed-key-sets.ts'
import { signedToken, testKey } from '../../support/callers/test-issuer.ts'
import { health, healthClient } from '../../support/grpc/health.ts'
import { running } from '../../support/service/running.ts'
import { untilLogged } from '../../support/service/until-logged.ts'

test('an instance of a fleet whose keys have not arrived is not ready where the bundle needs them, and is where it does not', async () => {
  const env = { EDGE_REDIS_URL: 'redis://127.0.0.1:1', EDGE_GRPC_PORT: '0' }
  const edge = await running({ bundle: { ...bundle(1), callers: { keys: {} } }, env })
  const { status, body } = await edge.get('/readyz')
  expect([status, JSON.parse(body)]).toEqual([503, { status: 'not_ready', reason: 'no_keys_loaded' }])
  const client = healthClient(edge.grpcPort)
  expect(await health(client)).toBe('NOT_SERVING')
  await edge.publish(bundle(2))
  expect([await health(client), (await edge.get('/readyz')).status]).toEqual(['SERVING', 200])
})

test('an instance by itself has its keys from the start', async () => {
  const edge = await running({ bundle: { ...bundle(1), callers: { keys: {} } } })
  expect((await edge.get('/readyz')).status).toBe(200)
})

test('an instance is ready without the key set of an issuer: it is asked, so that nobody unknown gets in, and other issuers are known', async () => {
  const [away, good] = [await KeySetServer.start(), await KeySetServer.start('a')]
  away.fail(503)
  const jwt = [away, good].map(({ url }, i) => ({ name: `issuer-${i}`, issuer: `https://${i}.test`, audiences: ['api'], jwks_url: url }))
  const env = { EDGE_BACKEND_HOSTS: [away, good].map(({ url }) => new URL(url).host).join(), EDGE_GRPC_PORT: '0' }
  const edge = await running({ bundle: { ...bundle(1), callers: { mode: 'enforce', jwt } }, env })
  await untilLogged(edge, 'key_set_failed')
  expect([await health(healthClient(edge.grpcPort)), (await edge.get('/readyz')).status]).toEqual(['SERVING', 200])
  const reasonFor = async (iss: string): Promise<unknown> => {
    const token = signedToken('EdDSA', testKey('ed25519', 'a'), { iss, aud: 'api', sub: 'ada', exp: 4_000_000_000 })
    return (await edge.decide({ fields: [['Authorization', `Bearer ${token}`]] })).headers['x-edge-reason']
  }
  expect([await reasonFor('https://0.test'), await reasonFor('https://1.test')]).toEqual(['caller_keys_unavailable', 'unknown_caller'])
})
