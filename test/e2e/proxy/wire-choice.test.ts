import { expect, onTestFinished, test, vi } from 'vitest'
import { WireFront } from '../../../src/listen/wire-front.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { proxying } from '../../support/proxy/proxy.ts'

// The end-to-end tests of the proxy run once on each wire: this is one of them.
const CHOICE = process.env['EDGE_TEST_PROXY_WIRE'] ?? 'own'

test.each([
  ['the run says', {}, CHOICE],
  ['EDGE_PROXY_WIRE=own', { EDGE_PROXY_WIRE: 'own' }, 'own'],
  ['EDGE_PROXY_WIRE=node', { EDGE_PROXY_WIRE: 'node' }, 'node'],
])('requests are read by the wire that is chosen: %s', async (_what, env, wire) => {
  const accept = vi.spyOn(WireFront.prototype, 'accept')
  onTestFinished(() => accept.mockRestore())
  const edge = await proxying(await HttpBackend.start(), { env })
  expect((await edge.get('/')).body).toBe('hello')
  expect(accept).toHaveBeenCalledTimes(wire === 'own' ? 1 : 0)
})

test('the second run of these tests in npm run test:full is one on node:http', ({ task }) => {
  if (task.file.projectName === 'proxy on node:http') expect(CHOICE).toBe('node')
})
