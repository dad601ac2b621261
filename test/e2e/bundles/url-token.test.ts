import { describe, expect, test } from 'vitest'
import { BundleServer } from '../../support/bundles/bundle-server.ts'
import { fetching, known, limit, logged, urlEnv } from '../../support/bundles/bundle-url.ts'
import { ask } from '../../support/service/http.ts'
import { serving } from '../../support/service/running.ts'
import { until } from '../../support/until.ts'

const TOKEN = 'config-token-5e5e5e'
const QUERY = 'query-secret-9d9d9d'

describe.concurrent('the token', () => {
  test('is sent as a bearer with each request', async (t) => {
    const source = await BundleServer.start(t)
    source.publish(known(1))
    await fetching(source.url, { EDGE_CONFIG_TOKEN: TOKEN }, t)
    await source.polled()
    for (const { headers } of source.requests) expect(headers.authorization).toBe(`Bearer ${TOKEN}`)
  })

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

  test('is not sent to another origin, nor back from there', async (t) => {
    const [source, other] = [await BundleServer.start(t), await BundleServer.start(t)]
    source.respond = (req, res) => {
      if (req.url === '/bundle') res.writeHead(302, { Location: `${other.origin}/there` }).end()
      else res.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': known(1).length }).end(known(1))
    }
    other.respond = (_req, res) => void res.writeHead(302, { Location: `${source.origin}/back` }).end()
    const edge = await fetching(source.url, { EDGE_CONFIG_TOKEN: TOKEN }, t)
    expect(await limit(edge)).toBe('11')
    expect(other.requests[0]!.headers.authorization).toBeUndefined()
    expect(source.requests.find(({ url }) => url === '/back')!.headers.authorization).toBeUndefined()
  })

  test('that was not sent on is not said to be wrong', async (t) => {
    const [source, other] = [await BundleServer.start(t), await BundleServer.start(t)]
    source.respond = (_req, res) => void res.writeHead(302, { Location: other.url }).end()
    other.respond = (_req, res) => void res.writeHead(403).end()
    const edge = await fetching(source.url, { EDGE_CONFIG_TOKEN: TOKEN }, t)
    const reason = 'it redirects to another origin, to which EDGE_CONFIG_TOKEN is not sent, and which returned 403'
    expect(await logged(edge, 'bundle_unreadable')).toMatchObject({ reason })
  })

  test('that is not accepted is named by its variable, not by its value', async (t) => {
    const source = await BundleServer.start(t)
    source.respond = (_req, res) => void res.writeHead(403).end()
    const edge = await fetching(source.url, { EDGE_CONFIG_TOKEN: TOKEN }, t)
    expect(await logged(edge, 'bundle_unreadable')).toMatchObject({ reason: 'it returned 403: EDGE_CONFIG_TOKEN is not accepted' })
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
