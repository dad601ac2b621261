import { describe, expect, test } from 'vitest'
import { BundleServer } from '../../support/bundles/bundle-server.ts'
import { fetching, known, limit, logged } from '../../support/bundles/bundle-url.ts'

const TOKEN = 'config-token-5e5e5e'

describe.concurrent('the token', () => {
  test('is sent as a bearer with each request', async (t) => {
    const source = await BundleServer.start(t)
    source.publish(known(1))
    await fetching(source.url, { EDGE_CONFIG_TOKEN: TOKEN }, t)
    await source.polled()
    for (const { headers } of source.requests) expect(headers.authorization).toBe(`Bearer ${TOKEN}`)
  })

  test('is not sent to another origin, nor back from there', async (t) => {
    const [source, other] = [await BundleServer.start(t), await BundleServer.start(t)]
    source.respond = (req, res) => {
      if (req.url === '/bundle') res.writeHead(302, { Location: `${other.origin}/there` }).end()
      else res.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': known(1).length }).end(known(1))
    }
    other.respond = (_req, res) => void res.writeHead(302, { Location: `${source.origin}/back` }).end()
    const edge = await fetching(source.url, { EDGE_CONFIG_TOKEN: TOKEN, EDGE_BACKEND_HOSTS: new URL(other.url).host }, t)
    expect(await limit(edge)).toBe('11')
    expect(other.requests[0]!.headers.authorization).toBeUndefined()
    expect(source.requests.find(({ url }) => url === '/back')!.headers.authorization).toBeUndefined()
  })

  test('that is not accepted is named by its variable, not by its value', async (t) => {
    const source = await BundleServer.start(t)
    source.respond = (_req, res) => void res.writeHead(403).end()
    const edge = await fetching(source.url, { EDGE_CONFIG_TOKEN: TOKEN }, t)
    expect(await logged(edge, 'bundle_unreadable')).toMatchObject({ reason: 'it returned 403: EDGE_CONFIG_TOKEN is not accepted' })
  })
})
