import { describe, expect, test } from 'vitest'
import { BundleServer } from '../../support/bundles/bundle-server.ts'
import { fetching, fetchingFirst, known, limit, logged, reloads } from '../../support/bundles/bundle-url.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { until } from '../../support/until.ts'

describe.concurrent('a bundle from a URL', () => {
  test('is there when the service has started, and each newer one is taken', async (t) => {
    const { edge, source } = await fetchingFirst(t)
    expect(await untilLogged(edge, 'bundle_applied')).toContainEqual(
      expect.objectContaining({ event: 'bundle_applied', url: source.url, version: '1' }),
    )
    expect(await limit(edge)).toBe('11')
    for (const version of [2, 3]) {
      const seen = edge.log.length
      source.publish(known(version))
      expect(await logged(edge, 'bundle_applied', seen)).toMatchObject({ version: String(version), policies: 1 })
      expect(await limit(edge)).toBe(String(version * 11))
    }
    expect(JSON.parse((await edge.get('/readyz')).body)).toMatchObject({ status: 'ready', policy_version: '3' })
  })

  test('that is not there at the start is taken when it comes', async (t) => {
    const source = await BundleServer.start(t)
    const edge = await fetching(source.url, {}, t)
    expect(await untilLogged(edge, 'bundle_unreadable')).toContainEqual(
      expect.objectContaining({
        event: 'bundle_unreadable',
        url: source.url,
        reason: 'it returned 404',
        msg: 'bundle cannot be read; the service is not ready until a good one appears',
      }),
    )
    expect((await edge.decide()).status).toBe(503)
    source.publish(known(1))
    await until(async () => (await edge.get('/readyz')).status === 200)
  })

  test('is asked for with the ETag of the active one, and 304 is no news', async (t) => {
    const source = await BundleServer.start(t)
    source.publish(known(1), { etag: '"one"' })
    const edge = await fetching(source.url, {}, t)
    await source.polled(3)
    expect(source.requests.map(({ headers }) => headers['if-none-match']).slice(0, 3)).toEqual([undefined, '"one"', '"one"'])
    await until(async () => (await reloads(edge, 'unchanged')) >= 2)
    expect(edge.log.filter(({ event }) => event === 'bundle_unchanged')).toEqual([])

    source.publish(known(2), { etag: 'W/"two"' })
    await logged(edge, 'bundle_applied', edge.log.length)
    await source.polled(2)
    expect(source.requests.at(-1)!.headers['if-none-match']).toBe('W/"two"')
  })
})

describe.concurrent('SIGHUP', () => {
  test('many times while one is under way: one more request for all of them', async (t) => {
    const { edge, source } = await fetchingFirst(t, { EDGE_CONFIG_POLL_INTERVAL: '3600' })
    const before = source.requests.length
    const serve = source.respond
    const reloaded: Promise<void>[] = []
    source.respond = (req, res) => {
      if (reloaded.length === 1) for (let i = 0; i < 50; i++) reloaded.push(edge.service.reload())
      serve(req, res)
    }
    reloaded.push(edge.service.reload())
    await until(() => reloaded.length > 1)
    await Promise.all(reloaded)
    expect(source.requests.length - before).toBe(2)
  })
})
