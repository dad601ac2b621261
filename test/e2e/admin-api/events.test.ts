import { beforeAll, describe, expect, test } from 'vitest'
import { ADMIN_ENV, ADMIN_TOKEN, askAdmin } from '../../support/admin/admin-client.ts'
import { EventClient } from '../../support/admin/event-client.ts'
import { ALICE, REJECTING, SECRET } from '../../support/admin/rejecting-bundle.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ask } from '../../support/service/http.ts'
import { running, thisTest } from '../../support/service/running.ts'
import { thisSuite } from '../../support/service/suite-owner.ts'
import { until } from '../../support/until.ts'

describe('GET events', () => {
  const owner = thisSuite()
  let refusing: Edge
  beforeAll(async () => {
    refusing = await running({ env: ADMIN_ENV }, owner)
  })

  test('is a stream of what happens, without the values of callers', async () => {
    const edge = await running({ bundle: REJECTING, env: ADMIN_ENV })
    const client = await EventClient.open(edge.adminPort)
    expect(client.res.statusCode).toBe(200)
    expect(client.res.headers).toMatchObject({ 'content-type': 'text/event-stream', 'cache-control': 'no-store' })
    expect(await edge.decideTimes(2, ALICE)).toEqual([200, 429])
    const [reject] = await client.untilNamed('reject')
    expect(reject!.data).toMatchObject({ event: 'reject', policy: 'api', rule: 'per-key', limit_keys: ['header:x-api-key'] })
    expect(reject!.data['time']).toBeDefined()
    await edge.publish(bundle(2, policy('api', { rules: [bucketRule('per-key', ['header:x-api-key'], 9)] })))
    expect((await client.untilNamed('bundle_applied'))[0]!.data).toMatchObject({ version: '2', policies: 1 })
    await edge.publish('{')
    await client.untilNamed('bundle_refused')
    expect(client.others[0]).toBe('retry: 3000')
    expect(JSON.stringify(client.events)).not.toContain(SECRET)
  })

  test.each(['silent', 'fatal', 'warn', 'debug'])('has all events, and the log what EDGE_LOG_LEVEL=%s admits', async (level) => {
    const edge = await running({ bundle: REJECTING, env: { ...ADMIN_ENV, EDGE_LOG_LEVEL: level } })
    const client = await EventClient.open(edge.adminPort)
    await edge.decideTimes(2, ALICE)
    await client.untilNamed('reject')
    expect(edge.logged('reject')).toHaveLength(level === 'debug' ? 1 : 0)
  })

  test('can be asked for some of them', async () => {
    const edge = await running({ bundle: REJECTING, env: ADMIN_ENV })
    const client = await EventClient.open(edge.adminPort, '?event=bundle_applied,bundle_refused,would_reject')
    const all = await EventClient.open(edge.adminPort)
    await edge.decideTimes(2, ALICE)
    await all.untilNamed('reject')
    await edge.publish(bundle(2))
    await client.untilNamed('bundle_applied')
    expect(client.named('reject')).toEqual([])
  })

  test.each([
    ['?event=rejects', 'event: there is no event "rejects"'],
    ['?event=', 'event: there is no event ""'],
    ['?event=reject&event=started', 'event is given more than once'],
    ['?events=reject', 'unknown parameter'],
    [`?token=${ADMIN_TOKEN}`, 'unknown parameter'],
  ])('refuses %s', async (query, message) => {
    const { status, json } = await askAdmin(refusing.adminPort, 'GET', `events${query}`)
    expect([status, json.error.code]).toEqual([400, 'bad_request'])
    expect(json.error.message).toContain(message)
  })

  test('needs the token, and GET', async () => {
    const edge = await running({ env: ADMIN_ENV })
    expect((await askAdmin(edge.adminPort, 'GET', 'events', { token: undefined })).status).toBe(401)
    for (const method of ['POST', 'HEAD', 'DELETE']) {
      const { status, headers } = await ask(edge.adminPort, method, '/admin/v1/events', [['Authorization', `Bearer ${ADMIN_TOKEN}`]])
      expect([method, status, headers['allow']]).toEqual([method, 405, 'GET'])
    }
  })

  test('serves 100 readers at once, each with every event, and forgets those that leave', async () => {
    const edge = await running({ bundle: REJECTING, env: ADMIN_ENV })
    // One address may have a quarter of the port's connections.
    const open = (_: unknown, i: number) => EventClient.open(edge.adminPort, '', thisTest, {}, `127.0.0.${(i % 4) + 1}`)
    const clients = await Promise.all(Array.from({ length: 100 }, open))
    await edge.decideTimes(2, ALICE)
    for (const client of clients) await client.untilNamed('reject')
    expect((await askAdmin(edge.adminPort, 'GET', 'status')).status).toBe(200)
    const more = await Promise.all(Array.from({ length: 28 }, open))
    expect(await askAdmin(edge.adminPort, 'GET', 'events')).toMatchObject({ status: 503, json: { error: { code: 'too_many_readers' } } })
    for (const client of [...clients, ...more]) client.abort()
    await until(async () => {
      const client = await EventClient.open(edge.adminPort)
      client.abort()
      return client.res.statusCode === 200
    })
  })

  test('leaves an address that reads with all the connections it may have its probes', async () => {
    const edge = await running({ bundle: REJECTING, env: ADMIN_ENV })
    const statuses: (number | undefined)[] = []
    while (statuses.at(-1) !== 503 && statuses.length < 100) statuses.push((await EventClient.open(edge.adminPort)).res.statusCode)
    expect(statuses).toEqual([...Array(64).fill(200), 503])
    for (const path of ['/livez', '/readyz']) expect((await ask(edge.adminPort, 'GET', path)).status).toBe(200)
  })

  test('ends at once when the service stops, behind the event that says so', async () => {
    const edge = await running({ bundle: REJECTING, env: ADMIN_ENV })
    const client = await EventClient.open(edge.adminPort)
    await edge.stop()
    await until(() => client.isClosed)
    expect(client.res.complete).toBe(true)
    expect(client.named('stopping')).toHaveLength(1)
  })
})
