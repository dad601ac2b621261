import { expect, test } from 'vitest'
import { blockRule, bundle, policy } from '../bundles/bundles.ts'
import type { Gateway } from './gateway.ts'
import { behind, startEdge } from './gateway-setup.ts'
import { statusOf } from './raw-request.ts'
import { recordingEdge } from './recording-edge.ts'

/** Spellings of a path that some reader takes for `/api/x`, or that look for a gap between readers. */
const SPELLINGS = [
  '/api/x',
  '/api/x?a=1&b=%2F',
  '//api/x',
  '/./api/x',
  '/y/../api/x',
  '/y/..//api/x',
  '/%61pi/x',
  '/%61%70%69/x',
  '/y/%2e%2e/api/x',
  '/y/%2E%2E/api/x',
  '/y%2f..%2fapi/x',
  '/api%2fx',
  '/api/x;v=1',
  '/api/x/',
  '/api//x',
  '/api/x#fragment',
  '/api/x?y=/../..',
  '/api/%5cx',
  '/api/x%00',
  '/api/x%20y',
  '/api/x%C3%A9',
  'http://127.0.0.1/api/x',
  'http://127.0.0.1//api/x',
  'http://other.example/api/x',
] as const
/** What edge reads as a path below `/api`: its documentation says how paths are normalised. */
const BELOW_API = SPELLINGS.filter((path) => !path.includes('%2f'))

/** Paths in odd spelling: edge decides about what the backend will see. */
export function pathSuite(gateway: Gateway): void {
  test('asks about the path and the host that the backend gets, however they are spelled', async () => {
    const asked = await recordingEdge(gateway)
    const { port, backend } = await behind(gateway, asked)
    expect(await statusOf(port, SPELLINGS[0])).toBe(200)
    backend.seen.pop()
    for (const path of SPELLINGS) {
      const status = await statusOf(port, path)
      // What the gateway refuses, nobody sees.
      if (status >= 400 && backend.seen.length === 0) continue
      const seen = backend.seen.pop()!
      const { uri, host } = gateway.asked(asked.seen.at(-1)!)
      expect([path, withoutOrigin(uri!), withoutPort(host!)]).toEqual([path, withoutOrigin(seen.url), withoutPort(seen.headers.host!)])
    }
  })

  test('no spelling slips past a rule for the path', async () => {
    const selector = { pathPrefix: '/api' }
    const edge = await startEdge({ bundle: bundle(1, policy('p', { selector, rules: [blockRule('closed')] })) })
    const { port, backend } = await behind(gateway, edge, 'fail open')
    expect(await statusOf(port, '/apix')).toBe(200)
    backend.seen.pop()
    const passed = []
    for (const path of BELOW_API) {
      const status = await statusOf(port, path)
      if (status < 400 || status >= 500) passed.push([path, status])
    }
    expect([passed, backend.seen.map(({ url }) => url)]).toEqual([[], []])
  })
}

function withoutOrigin(uri: string): string {
  return uri.replace(/^http:\/\/[^/]*/, '')
}

function withoutPort(host: string): string {
  return host.replace(/:\d+$/, '')
}
