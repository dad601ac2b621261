import { expect, type TestContext, test } from 'vitest'
import { BundleServer } from '../../support/bundles/bundle-server.ts'
import { known, urlEnv } from '../../support/bundles/bundle-url.ts'
import type { Cli } from '../../support/service/cli.ts'
import { describeWithOpenssl } from '../../support/service/openssl-suite.ts'
import { scratchDirectory, serving } from '../../support/service/running.ts'
import { type Certificate, selfSigned } from '../../support/service/self-signed.ts'
import { until } from '../../support/until.ts'

const TOKEN = 'config-token-5e5e5e'

describeWithOpenssl('over TLS', () => {
  test.concurrent('a source that nobody vouches for is not', async (t) => {
    const { source } = await tlsSource(t)
    source.publish(known(1))
    const cli = await serving(urlEnv(source.url, { EDGE_CONFIG_TOKEN: TOKEN }), [], t)
    expect(await firstReasons(cli)).toEqual([expect.stringContaining('certificate')])
    expect(source.requests).toEqual([])
  })

  test.concurrent('a redirect to http is not followed', async (t) => {
    const { source, certificate } = await tlsSource(t)
    const plain = await BundleServer.start(t)
    plain.publish(known(1))
    source.respond = (_req, res) => void res.writeHead(301, { Location: plain.url }).end()
    const cli = await serving(urlEnv(source.url, { NODE_EXTRA_CA_CERTS: certificate.path }), [], t)
    expect(await firstReasons(cli)).toEqual(['it redirects from https: to http:'])
    expect(plain.requests).toEqual([])
  })

  test.concurrent('a redirect from http is, without the token', async (t) => {
    const { source, certificate } = await tlsSource(t)
    source.publish(known(1))
    const plain = await BundleServer.start(t)
    plain.respond = (_req, res) => void res.writeHead(301, { Location: source.url }).end()
    const cli = await serving(urlEnv(plain.url, { NODE_EXTRA_CA_CERTS: certificate.path, EDGE_CONFIG_TOKEN: TOKEN }), [], t)
    await until(() => cli.logged('bundle_applied').length === 1)
    expect(source.requests[0]!.headers.authorization).toBeUndefined()
  })

  test.concurrent('a source whose certificate NODE_EXTRA_CA_CERTS vouches for is read', async (t) => {
    const { source, certificate } = await tlsSource(t)
    source.publish(known(1))
    const cli = await serving(urlEnv(source.url, { NODE_EXTRA_CA_CERTS: certificate.path }), [], t)
    await until(() => cli.logged('bundle_applied').length === 1)
  })
})

async function tlsSource(t: TestContext): Promise<{ source: BundleServer; certificate: Certificate }> {
  const certificate = await selfSigned(await scratchDirectory(t))
  return { source: await BundleServer.start(t, certificate), certificate }
}

async function firstReasons(cli: Cli): Promise<unknown[]> {
  await until(() => cli.logged('bundle_unreadable').length > 0)
  return cli.logged('bundle_unreadable').map(({ reason }) => reason)
}
