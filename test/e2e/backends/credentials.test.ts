import { describe, expect, test } from 'vitest'
import { bucketRule, policy } from '../../support/bundles/bundles.ts'
import { CALLERS, GoodCallers } from '../../support/callers/good-callers.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { proxying } from '../../support/proxy/proxy.ts'
import { hostsOf, named, routedBundle, saying } from '../../support/proxy/routed.ts'
import { PROXY_WIRES } from '../../support/run/proxy-wire.ts'
import { ask, type Fields } from '../../support/service/http.ts'

describe.each(PROXY_WIRES)('with the wire %s', (wire) => {
  test('a backend with forward_credentials: false gets nothing by which a client says who it is, and the others do', async () => {
    const strict = await HttpBackend.start(saying('strict', 418))
    const lenient = await named('lenient')
    const route = { backends: [{ name: 'strict' }], fallback: [{ name: 'lenient' }], retry: { on: [418], attempts: 1 } }
    const backends = { strict: { url: strict.url }, lenient: { url: lenient.url } }
    const more = { strict: { headers: { 'x-own': 'edge' }, forward_credentials: false } }
    const limits = [policy('p', { rules: [bucketRule('r', [], 100)] })]
    for (const callers of [{ callers: CALLERS }, {}]) {
      const bundle = { ...routedBundle(1, backends, [route], more, limits), ...callers }
      const env = { EDGE_PROXY_WIRE: wire, EDGE_BACKEND_HOSTS: hostsOf(backends) }
      const edge = await proxying(strict, { bundle, env, callerReaderOf: () => new GoodCallers() })
      const sent: Fields[] = [
        [['Authorization', 'Bearer good:ada:blue']],
        [['AUTHORIZATION', 'Bearer expired']],
        [
          ['Authorization', 'Basic eDp5'],
          ['Authorization', 'Basic eDp6'],
        ],
      ]
      for (const fields of sent) {
        await ask(edge.port, 'GET', '/', [...fields, ['X-Other', '1']])
        expect(strict.seen.at(-1)!.rawHeaders.join('\n')).not.toMatch(/authorization/i)
        expect(strict.seen.at(-1)!.headers).toMatchObject({ 'x-other': '1', 'x-own': 'edge' })
        expect(lenient.seen.at(-1)!.rawHeaders).toEqual(expect.arrayContaining([...fields[0]!]))
      }
      await ask(edge.port, 'GET', '/', [['X_Api_Key', 'sk-of-a-client']])
      expect('x_api_key' in strict.seen.at(-1)!.headers).toBe(!('callers' in callers))
    }
  })
})
