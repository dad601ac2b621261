import { describe, expect, test } from 'vitest'
import { BundleServer } from '../../support/bundles/bundle-server.ts'
import { fetching, fetchingFirst, known, knownYaml, limit, logged, reloads, urlEnv } from '../../support/bundles/bundle-url.ts'
import { ask } from '../../support/service/http.ts'
import { serving } from '../../support/service/running.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { until } from '../../support/until.ts'

describe.concurrent('SIGHUP', () => {
  test('while a poll hangs: that one is given up, and asked anew', async (t) => {
    const source = await BundleServer.start(t)
    let givenUp = 0
    source.respond = (_req, res) => void res.on('close', () => givenUp++) // never
    const cli = await serving(urlEnv(source.url), [], t)
    await until(() => source.requests.length === 1)
    // The second finds one that hangs too, the one of the first.
    for (let i = 1; i <= 2; i++) {
      cli.process.kill('SIGHUP')
      await until(() => givenUp === i && source.requests.length === i + 1)
    }
    source.publish(known(1))
    cli.process.kill('SIGHUP')
    await until(() => cli.logged('bundle_applied').length === 1)
    expect(cli.logged('bundle_unreadable')).toEqual([])
  })
})

test('a service that polls stops at once, with a request on its way', async (t) => {
  const source = await BundleServer.start(t)
  source.publish(known(1))
  const cli = await serving(urlEnv(source.url), [], t)
  await until(() => cli.logged('bundle_applied').length === 1)
  expect(cli.stdout).toContain(source.url)
  source.respond = () => {} // never
  await source.polled()
  expect(await cli.stop()).toBe(0)
  expect(cli.logged('bundle_unreadable')).toEqual([])
})

describe.concurrent('a bundle from a URL', () => {
  test('that was refused leaves the ETag of the active one, so that 304 always means that one', async (t) => {
    const source = await BundleServer.start(t)
    source.publish(known(1), { etag: '"one"' })
    const edge = await fetching(source.url, {}, t)
    source.publish('{', { etag: '"bad"' })
    await logged(edge, 'bundle_refused')
    await source.polled(3)
    const sent = source.requests.slice(1).map(({ headers }) => headers['if-none-match'])
    expect(new Set(sent)).toEqual(new Set(['"one"']))
    expect(await reloads(edge, 'refused')).toBeGreaterThanOrEqual(2)
    expect(await untilLogged(edge, 'bundle_refused')).toHaveLength(1)
  })

  test('with an empty ETag is one without', async (t) => {
    const source = await BundleServer.start(t)
    source.publish(known(1), { etag: '' })
    await fetching(source.url, {}, t)
    await source.polled(2)
    expect(source.requests.map(({ headers }) => headers['if-none-match']).filter((sent) => sent !== undefined)).toEqual([])
  })

  test('without an ETag is no news when its bytes are the same', async (t) => {
    const { edge, source } = await fetchingFirst(t)
    await source.polled(3)
    expect(source.requests.at(-1)!.headers['if-none-match']).toBeUndefined()
    await until(async () => (await reloads(edge, 'unchanged')) >= 2)
    expect(await reloads(edge, 'applied')).toBe(1)
  })

  test('says in a metric when the source was last good', async (t) => {
    const source = await BundleServer.start(t)
    const edge = await fetching(source.url, {}, t)
    // There from the start, or an alert would not see who never had one.
    expect((await edge.get('/metrics')).body).toMatch(/^edge_bundle_last_good_poll_timestamp_seconds 0$/m)
    source.publish(known(1))
    await logged(edge, 'bundle_applied')
    await until(async () => (await edge.metric('edge_bundle_last_good_poll_timestamp_seconds')) === Date.UTC(2026, 0, 15, 12) / 1000)
  })

  test('is asked for by name and version, uncompressed, one poll at a time', async (t) => {
    const { source } = await fetchingFirst(t)
    expect(source.requests[0]!.headers).toMatchObject({
      'accept-encoding': 'identity',
      'user-agent': expect.stringMatching(/^edge\/\d/),
      accept: expect.stringContaining('application/yaml'),
    })
    expect(source.requests[0]!.headers.authorization).toBeUndefined()
    let open = 0
    let most = 0
    source.respond = (_req, res) => {
      most = Math.max(most, ++open)
      res.on('close', () => open--)
      setTimeout(() => res.writeHead(500).end(), 150)
    }
    await source.polled(4)
    expect(most).toBe(1)
  })
})

describe.concurrent('the format of a bundle from a URL', () => {
  test.for([
    ['application/json', '/b.yaml', known(1)],
    ['application/vnd.edge+json; charset=utf-8', '/b', known(1)],
    ['text/json', '/b', known(1)],
    ['application/yaml', '/b.json', knownYaml(1)],
    ['text/yaml; charset=utf-8', '/b', knownYaml(1)],
    ['application/x-yaml', '/b', knownYaml(1)],
    ['text/x-yaml', '/b', knownYaml(1)],
    ['TEXT/VND.YAML', '/b', knownYaml(1)],
    ['text/plain', '/b.yml?version=1.json', knownYaml(1)],
    ['application/octet-stream', '/b.JSON', known(1)],
    ['text/plain', '/b', `\n ${known(1)}`],
    ['text/plain', '/b', `\ufeff${known(1)}`],
    ['text/plain', '/b', knownYaml(1)],
    ['', '/b', knownYaml(1)],
  ] as const)('%j at %s', async ([type, path, content], t) => {
    const source = await BundleServer.start(t)
    source.publish(content, { type })
    const edge = await fetching(source.origin + path, {}, t)
    expect(await limit(edge)).toBe('11')
  })

  test.for([
    ['application/json', knownYaml(1), 'not JSON'],
    ['application/yaml', '{"bundle_version": 1', 'not YAML'],
  ] as const)('%s is believed: what is something else is refused', async ([type, content, problem], t) => {
    const source = await BundleServer.start(t)
    source.publish(content, { type })
    const edge = await fetching(source.url, {}, t)
    expect(await logged(edge, 'bundle_refused')).toMatchObject({ problems: [expect.stringContaining(problem)] })
  })
})

describe.concurrent('SIGHUP', () => {
  test('asks at once and without an ETag, and says what came of it', async (t) => {
    const source = await BundleServer.start(t)
    source.publish(known(1), { etag: '"one"' })
    const cli = await serving(urlEnv(source.url, { EDGE_CONFIG_POLL_INTERVAL: '3600' }), [], t)
    await until(() => cli.logged('bundle_applied').length === 1)
    cli.process.kill('SIGHUP')
    await until(() => cli.logged('bundle_unchanged').length === 1)
    source.publish(known(2), { etag: '"two"' })
    cli.process.kill('SIGHUP')
    await until(() => cli.logged('bundle_applied').length === 2)
    source.respond = (_req, res) => void res.writeHead(500).end()
    for (let i = 1; i <= 2; i++) {
      cli.process.kill('SIGHUP')
      await until(() => cli.logged('bundle_unreadable').length === i)
    }
    expect(source.requests.map(({ headers }) => headers['if-none-match'])).toEqual(new Array(source.requests.length).fill(undefined))
    expect(JSON.parse((await ask(cli.port, 'GET', '/readyz')).body)).toMatchObject({ status: 'ready', policy_version: '2' })
  })
})
