import { expect, test } from 'vitest'
import { holdsBackend, holdsBundle, openHolds, openTunnel, wait } from '../../support/proxy/holds.ts'
import { proxyEnv } from '../../support/proxy/proxy.ts'
import { mortalEdge } from '../../support/workers/mortal-edge.ts'

/** Longer than any machine stands still. */
const HOLD_SECONDS = 15

test('a worker that dies releases its holds within hold_seconds', async () => {
  const backend = await holdsBackend()
  const mortal = await mortalEdge(1, { bundle: holdsBundle(2, HOLD_SECONDS), env: proxyEnv(backend.url) })
  await wait(mortal.edge, backend)
  await openTunnel(mortal.edge)
  expect((await mortal.edge.get('/')).status).toBe(429)
  mortal.age()
  await mortal.host.terminate(1)
  await mortal.untilReplaced()
  await expect.poll(async () => (await mortal.edge.get('/')).headers['ratelimit-remaining'], { timeout: 120_000, interval: 500 }).toBe('1')
  expect(await openHolds(mortal.edge)).toBe(0)
})

test('workers count together', async () => {
  const backend = await holdsBackend()
  const mortal = await mortalEdge(2, { bundle: holdsBundle(4), env: proxyEnv(backend.url) })
  for (let i = 0; i < 4; i++) await wait(mortal.edge, backend)
  for (let i = 0; i < 6; i++) expect((await mortal.edge.get('/')).status).toBe(429)
})
