import { expect, test } from 'vitest'
import { servingProxy } from '../../support/proxy/proxy.ts'
import { expectEcho, expectRefused, startTlsBackend, UNTRUSTED } from '../../support/proxy/tls-backend.ts'
import { ask } from '../../support/service/http.ts'
import { describeWithOpenssl } from '../../support/service/openssl-suite.ts'
import { untilLogged } from '../../support/service/until-logged.ts'

/** Each trusts a certificate of its own, which Node reads when a process starts. */
describeWithOpenssl('a backend that speaks TLS', () => {
  test('whose certificate is trusted answers by address', async () => {
    const backend = await startTlsBackend('DNS:localhost,IP:127.0.0.1')
    const byAddress = await servingProxy({ url: `https://127.0.0.1:${backend.port}/base` }, { NODE_EXTRA_CA_CERTS: backend.certificate })
    await expectEcho(byAddress, backend, '127.0.0.1', false)
  })

  test('keeps its connections, and those of EDGE_BACKEND_HOST=client are named as the URL says', async () => {
    const { certificate, port, seen, connections } = await startTlsBackend('DNS:localhost')
    const asked = await servingProxy(
      { url: `https://localhost:${port}` },
      { NODE_EXTRA_CA_CERTS: certificate, EDGE_BACKEND_HOST: 'client' },
    )
    for (let i = 0; i < 3; i++) expect((await ask(asked.port, 'POST', '/', [], 'x')).status).toBe(200)
    expect(seen).toMatchObject([{ serverName: 'localhost', host: `127.0.0.1:${asked.port}` }, {}, {}])
    expect(connections()).toBe(1)
  })

  test.each([
    ['for another name', 'DNS:example.com', 'localhost'],
    ['for a name, asked by address', 'DNS:localhost', '127.0.0.1'],
  ])('with a certificate %s: 502, and nothing is sent', async (_what, names, host) => {
    const { certificate, port, seen } = await startTlsBackend(names)
    const refusing = await servingProxy({ url: `https://${host}:${port}` }, { NODE_EXTRA_CA_CERTS: certificate })
    expectRefused(await ask(refusing.port, 'POST', '/', [], 'secret'))
    expect(seen).toEqual([])
    expect(await untilLogged(refusing, 'backend_failed')).toContainEqual(UNTRUSTED)
  })
})
