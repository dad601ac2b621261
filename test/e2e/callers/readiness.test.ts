import { expect, test } from 'vitest'
import { bundle } from '../../support/bundles/bundles.ts'
import { running } from '../../support/service/running.ts'

test('an instance of a fleet whose keys have not arrived is not ready where the bundle needs them, and is where it does not', async () => {
  const env = { EDGE_REDIS_URL: 'redis://127.0.0.1:1' }
  const edge = await running({ bundle: { ...bundle(1), callers: { keys: {} } }, env })
  const { status, body } = await edge.get('/readyz')
  expect([status, JSON.parse(body)]).toEqual([503, { status: 'not_ready', reason: 'no_keys_loaded' }])
  await edge.publish(bundle(2))
  expect((await edge.get('/readyz')).status).toBe(200)
})

test('an instance by itself has its keys from the start', async () => {
  const edge = await running({ bundle: { ...bundle(1), callers: { keys: {} } } })
  expect((await edge.get('/readyz')).status).toBe(200)
})
