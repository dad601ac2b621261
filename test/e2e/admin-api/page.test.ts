import { beforeAll, describe, expect, test } from 'vitest'
import { ADMIN_ENV } from '../../support/admin/admin-client.ts'
import { bundle } from '../../support/bundles/bundles.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ask } from '../../support/service/http.ts'
import { running } from '../../support/service/running.ts'
import { thisSuite } from '../../support/service/suite-owner.ts'

const PATHS = ['/', '/console/console.js', '/console/console.css', '/console/icon.svg']

describe("the operators' page", () => {
  const owner = thisSuite()
  let edge: Edge
  beforeAll(async () => {
    edge = await running({ bundle: bundle(1), env: ADMIN_ENV }, owner)
  })

  test('is on the admin port with all its files, and nothing of it is on the main port', async () => {
    for (const path of PATHS) {
      expect([path, (await ask(edge.adminPort, 'GET', path)).status]).toEqual([path, 200])
      expect([path, (await ask(edge.port, 'GET', path)).status]).toEqual([path, 404])
    }
    for (const path of ['/console', '/console/', '/console/..', '/index.html', '/console/index.html', '//'])
      expect([path, (await ask(edge.adminPort, 'GET', path)).status]).toEqual([path, 404])
  })

  test('is not there without an admin token', async () => {
    const bare = await running({ bundle: bundle(1), env: { EDGE_ADMIN_PORT: '0' } })
    for (const path of PATHS) expect([path, (await ask(bare.adminPort, 'GET', path)).status]).toEqual([path, 404])
  })

  test('names only files of its own, and has neither script nor style inside', async () => {
    const { body } = await ask(edge.adminPort, 'GET', '/')
    const named = [...body.matchAll(/(?:src|href)="([^"]*)"/g)].map(([, path]) => path!)
    expect(named.toSorted()).toEqual(PATHS.slice(1).toSorted())
    expect(body).not.toMatch(/<style|style=|<script[^>]*>[^<]|\son\w+=/i)
  })

  test('forbids everything that is not its own', async () => {
    for (const path of PATHS) {
      const { headers } = await ask(edge.adminPort, 'GET', path)
      const policy = headers['content-security-policy']!.split('; ')
      expect(policy).toEqual(
        expect.arrayContaining(["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "require-trusted-types-for 'script'"]),
      )
      for (const source of policy.flatMap((directive) => directive.split(' ').slice(1)))
        expect(["'none'", "'self'", "'script'"]).toContain(source)
      expect(headers).toMatchObject({
        'x-content-type-options': 'nosniff',
        'referrer-policy': 'no-referrer',
        'cross-origin-opener-policy': 'same-origin',
        'cross-origin-resource-policy': 'same-origin',
      })
    }
  })

  test('is not sent again to a browser that has it', async () => {
    for (const path of PATHS) {
      const { headers } = await ask(edge.adminPort, 'GET', path)
      expect(headers['cache-control']).toBe('no-cache')
      const again = await ask(edge.adminPort, 'GET', path, [['If-None-Match', headers['etag']!]])
      expect([again.status, again.body, again.headers['etag']]).toEqual([304, '', headers['etag']])
      expect(again.headers['content-security-policy']).toBe(headers['content-security-policy'])
      expect((await ask(edge.adminPort, 'GET', path, [['If-None-Match', '"of-an-older-build"']])).status).toBe(200)
    }
  })

  test('is compressed where the browser can read that', async () => {
    for (const path of PATHS) {
      const { body, headers } = await ask(edge.adminPort, 'GET', path)
      expect([headers['content-encoding'], headers['vary'], headers['content-length']]).toEqual([
        undefined,
        'Accept-Encoding',
        String(Buffer.byteLength(body)),
      ])
      const response = await fetch(`http://127.0.0.1:${edge.adminPort}${path}`, { headers: { 'Accept-Encoding': 'gzip' } })
      expect([response.headers.get('content-encoding'), await response.text()]).toEqual(['gzip', body])
    }
  })

  test('has a head alone for HEAD, and refuses other methods', async () => {
    for (const path of PATHS) {
      const [whole, head] = [await ask(edge.adminPort, 'GET', path), await ask(edge.adminPort, 'HEAD', path)]
      expect([head.status, head.body, head.headers['content-length']]).toEqual([200, '', whole.headers['content-length']])
      for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS'])
        expect(await ask(edge.adminPort, method, path)).toMatchObject({ status: 405, headers: { allow: 'GET, HEAD' } })
    }
  })
})
