import { beforeAll, describe, expect, test } from 'vitest'
import { ADMIN_ENV, askAdmin } from '../../support/admin/admin-client.ts'
import { EventClient } from '../../support/admin/event-client.ts'
import { ALICE, REJECTING, SECRET } from '../../support/admin/rejecting-bundle.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'
import { thisSuite } from '../../support/service/suite-owner.ts'

async function namesOf(edge: Edge, query = ''): Promise<string[]> {
  const { status, json } = await askAdmin(edge.adminPort, 'GET', `events/recent${query}`)
  expect(status).toBe(200)
  return json.events.map(({ event }: { event: string }) => event)
}

/** The stream's events, once the one with this name is there. */
async function streamed(edge: Edge, query: string, last: string, fields = {}): Promise<EventClient> {
  const client = await EventClient.open(edge.adminPort, query, undefined, fields)
  await client.untilNamed(last)
  return client
}

describe('what happened before anybody looked', () => {
  test('is listed by GET events/recent, without the values of callers', async () => {
    const edge = await running({ bundle: REJECTING, env: ADMIN_ENV })
    expect(await edge.decideTimes(2, ALICE)).toEqual([200, 429])
    await edge.publish('{')
    const { json } = await askAdmin(edge.adminPort, 'GET', 'events/recent')
    expect(json.complete).toBe(true)
    expect(json.events.map(({ event }: { event: string }) => event)).toEqual(
      expect.arrayContaining(['bundle_applied', 'started', 'reject', 'bundle_refused']),
    )
    const reject = json.events.find(({ event }: { event: string }) => event === 'reject')
    expect(reject).toMatchObject({ policy: 'api', rule: 'per-key', reason: 'token_bucket_exceeded' })
    expect(JSON.stringify(json)).not.toContain(SECRET)
  })

  test('is listed in part by name, by the first word of a name, by time and by number', async () => {
    const clock = new ManualClock()
    const edge = await running({ bundle: REJECTING, env: ADMIN_ENV, clock })
    await edge.decideTimes(2, ALICE)
    expect(await namesOf(edge, '?event=reject,bundle')).toEqual(['bundle_applied', 'reject'])
    clock.advance(30 * 60_000)
    await edge.publish('{')
    expect(await namesOf(edge, '?since=29m')).toEqual(['bundle_refused'])
    expect(await namesOf(edge, `?since=${new Date(clock.wallMs()).toISOString()}`)).toEqual(['bundle_refused'])
    const limited = await askAdmin(edge.adminPort, 'GET', 'events/recent?event=reject,bundle_applied,bundle_refused&limit=2')
    expect(limited.json).toMatchObject({ complete: false, events: [{ event: 'reject' }, { event: 'bundle_refused' }] })
    clock.advance(31 * 60_000)
    expect(await namesOf(edge, '?event=reject,bundle_applied,bundle_refused')).toEqual(['bundle_refused'])
  })

  test('begins the stream of who asks for it, and goes on with what happens', async () => {
    const edge = await running({ bundle: REJECTING, env: ADMIN_ENV })
    await edge.decideTimes(2, ALICE)
    const client = await streamed(edge, '?since=1h', 'reject')
    await edge.publish('{')
    await client.untilNamed('bundle_refused')
    const ids = client.events.map(({ id }) => Number(id))
    expect(ids).toEqual([...new Set(ids)].sort((a, b) => a - b))
    expect(client.named('bundle_applied')).toHaveLength(1)
    const some = await streamed(edge, '?since=1h&event=bundle', 'bundle_refused')
    expect(some.events.map(({ name }) => name)).toEqual(['bundle_applied', 'bundle_refused'])
    const none = await EventClient.open(edge.adminPort)
    await edge.publish('[')
    await none.untilNamed('bundle_refused')
    expect(none.events.map(({ name }) => name)).toEqual(['bundle_refused'])
  })

  test('comes to a client that reconnects from where it was', async () => {
    const edge = await running({ bundle: REJECTING, env: ADMIN_ENV })
    const before = await streamed(edge, '?since=1h', 'started')
    const { id } = before.named('started')[0]!
    before.abort()
    await edge.decideTimes(2, ALICE)
    const after = await streamed(edge, '?since=1h', 'reject', { 'Last-Event-ID': id })
    expect(after.named('started')).toEqual([])
    const other = await streamed(edge, '', 'started', { 'Last-Event-ID': '12' })
    expect(other.named('bundle_applied')).toHaveLength(1)
  })
})

describe('requests that are refused', () => {
  const owner = thisSuite()
  let edge: Edge
  beforeAll(async () => {
    edge = await running({ env: ADMIN_ENV }, owner)
  })

  const SINCE = 'since: expected a duration such as 90s, 30m, 2h or 7d, or a time in UTC'
  test.each([
    ['events/recent?since=', SINCE],
    ['events/recent?since=1w', SINCE],
    ['events/recent?since=2026-02-30T00:00:00Z', SINCE],
    ['events/recent?since=2026-01-31T12:00:00%2B02:00', SINCE],
    ['events?since=yesterday', SINCE],
    ['changes?since=-1h', SINCE],
    ['changes?since=1h&since=2h', 'since is given more than once'],
    ['changes?limit=501', 'limit: expected a whole number from 1 to 500'],
    ['changes?event=reject', 'unknown parameter "event"'],
    ['events/recent?limit=0', 'limit: expected a whole number from 1 to 2000'],
    ['events/recent?event=nope,reject,neither', 'event: there is no event "nope", "neither"'],
    [`events/recent?event=${'a,b,c,d,e,f,g'.repeat(1)}`, 'there is no event "a", "b", "c", "d", "e", and 2 more'],
    ['events/recent?event=', 'event: there is no event ""'],
    ['events/recent?event=constructor', 'there is no event "constructor"'],
  ])('GET %s', async (path, message) => {
    const { status, json } = await askAdmin(edge.adminPort, 'GET', path)
    expect([status, json.error.code]).toEqual([400, 'bad_request'])
    expect(json.error.message).toContain(message)
  })

  test.each(['', 'abc', '-1', '9'.repeat(30), '1, 2'])('a Last-Event-ID of "%s"', async (id) => {
    const { status, json } = await askAdmin(edge.adminPort, 'GET', 'events', { headers: { 'Last-Event-ID': id } })
    expect([status, json.error.message]).toEqual([400, 'Last-Event-ID: expected the id of an event, once'])
  })

  test.each(['events/recent', 'changes'])('GET %s without the token', async (path) => {
    expect((await askAdmin(edge.adminPort, 'GET', path, { token: undefined })).status).toBe(401)
  })

  test('time beyond all measure is all that is kept', async () => {
    for (const since of ['999999999d', '0001-01-01T00:00:00Z']) expect(await namesOf(edge, `?since=${since}`)).toContain('started')
  })
})
