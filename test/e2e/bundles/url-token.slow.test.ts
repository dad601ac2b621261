import { describe, expect, type TestContext, test } from 'vitest'
import { BundleServer } from '../../support/bundles/bundle-server.ts'
import { fetching, known, limit, logged, urlEnv } from '../../support/bundles/bundle-url.ts'
import type { Cli } from '../../support/service/cli.ts'
import { ask } from '../../support/service/http.ts'
import { describeWithOpenssl } from '../../support/service/openssl-suite.ts'
import { scratchDirectory, serving } from '../../support/service/running.ts'
import { type Certificate, selfSigned } from '../../support/service/self-signed.ts'
import { until } from '../../support/until.ts'

const QUERY = 'query-secret-9d9d9d'

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
    const cli = await serving(
      urlEnv(plain.url, { NODE_EXTRA_CA_CERTS: certificate.path, EDGE_CONFIG_TOKEN: TOKEN, EDGE_BACKEND_HOSTS: new URL(source.url).host }),
      [],
      t,
    )
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

describe.concurrent('the token', () => {
  test('goes along when the source redirects to itself', async (t) => {
    const source = await BundleServer.start(t)
    source.publish(known(1))
    const serve = source.respond
    source.respond = (req, res) => (req.url === '/bundle' ? void res.writeHead(302, { Location: '/elsewhere' }).end() : serve(req, res))
    const edge = await fetching(source.url, { EDGE_CONFIG_TOKEN: TOKEN }, t)
    expect(await limit(edge)).toBe('11')
    expect(source.requests.slice(0, 2).map(({ url, headers }) => [url, headers.authorization])).toEqual([
      ['/bundle', `Bearer ${TOKEN}`],
      ['/elsewhere', `Bearer ${TOKEN}`],
    ])
  })

  test('that was not sent on is not said to be wrong', async (t) => {
    const [source, other] = [await BundleServer.start(t), await BundleServer.start(t)]
    source.respond = (_req, res) => void res.writeHead(302, { Location: other.url }).end()
    other.respond = (_req, res) => void res.writeHead(403).end()
    const edge = await fetching(source.url, { EDGE_CONFIG_TOKEN: TOKEN, EDGE_BACKEND_HOSTS: new URL(other.url).host }, t)
    const reason = 'it redirects to another origin, to which EDGE_CONFIG_TOKEN is not sent, and which returned 403'
    expect(await logged(edge, 'bundle_unreadable')).toMatchObject({ reason })
  })
})

test('neither token nor query is in any output or metric, whatever the source does', async (t) => {
  const source = await BundleServer.start(t)
  source.publish(known(1))
  const env = urlEnv(`${source.url}?sig=${QUERY}`, { EDGE_CONFIG_TOKEN: TOKEN, EDGE_LOG_LEVEL: 'trace' })
  const cli = await serving(env, [], t)
  await until(() => cli.logged('bundle_applied').length === 1)
  expect(source.requests[0]!.url).toBe(`/bundle?sig=${QUERY}`)
  expect(cli.stdout).toContain(`${source.url}?…`)
  source.publish('{')
  await until(() => cli.logged('bundle_refused').length > 0)
  source.respond = (_req, res) => void res.writeHead(302, { Location: `ftp://127.0.0.1/${QUERY}` }).end()
  await until(() => cli.logged('bundle_unreadable').length > 0)
  source.respond = (req) => void req.socket.destroy()
  await until(() => cli.logged('bundle_unreadable').length > 1)
  const metrics = await ask(cli.port, 'GET', '/metrics')
  await cli.stop()
  for (const secret of [TOKEN, QUERY]) expect(`${cli.stdout}${cli.stderr}${metrics.body}`).not.toContain(secret)
})
