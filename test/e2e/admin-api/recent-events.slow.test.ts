import { expect, test } from 'vitest'
import { ADMIN_ENV, adminPortOf, askAdmin } from '../../support/admin/admin-client.ts'
import { EventClient } from '../../support/admin/event-client.ts'
import { ALICE, REJECTING } from '../../support/admin/rejecting-bundle.ts'
import { ask } from '../../support/service/http.ts'
import { metric } from '../../support/service/metrics.ts'
import { servingOn } from '../../support/workers/workers.ts'

const FIELDS: [string, string][] = [['X-Original-Method', 'GET'], ['X-Original-URI', ALICE.uri], ...ALICE.fields]

test('what any worker rejected a moment ago is listed, and begins a stream, though nobody watched', async () => {
  const edge = await servingOn(2, REJECTING, ADMIN_ENV)
  const adminPort = adminPortOf(edge)
  let rejects = 0
  for (let i = 0; i < 20; i++) if ((await ask(edge.port, 'POST', '/v1/decision', FIELDS)).status === 429) rejects++
  expect(rejects).toBe(19)
  // A line that comes later may be of an event that the response could not have.
  const logged = edge.logged('reject').length
  // Right behind the responses: what workers have not sent yet is asked for.
  const { json } = await askAdmin(adminPort, 'GET', 'events/recent?event=reject')
  expect(json.events.length).toBeGreaterThanOrEqual(1)
  expect(json.events.length).toBeLessThanOrEqual(2 * 20)
  expect(logged).toBeLessThanOrEqual(json.events.length)
  const client = await EventClient.open(adminPort, '?since=1h&event=reject')
  await client.untilNamed('reject', json.events.length)
  expect(client.events.slice(0, json.events.length).map(({ data }) => data)).toEqual(json.events)
  expect(await metric(adminPort, 'edge_events_dropped_total{to="hub"}')).toBe(0)
})
