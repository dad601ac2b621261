import { connect } from 'node:net'
import { describe, expect, test } from 'vitest'
import { ADMIN_ENV, ADMIN_TOKEN, askAdmin } from '../../support/admin/admin-client.ts'
import { EventClient } from '../../support/admin/event-client.ts'
import { ALICE, REJECTING } from '../../support/admin/rejecting-bundle.ts'
import { metric } from '../../support/service/metrics.ts'
import { running } from '../../support/service/running.ts'
import { until } from '../../support/until.ts'

describe('GET events', () => {
  test.each([
    ['garbage', 'garbage\r\n\r\n'],
    ['requests without end', 'GET /admin/v1/events HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(5000)],
    ['half a request', 'GET /admin/v1/status HT'],
  ])('a reader that sends %s behind its request harms nobody', async (_, bytes) => {
    const edge = await running({ bundle: REJECTING, env: ADMIN_ENV })
    const client = await EventClient.open(edge.adminPort)
    const socket = connect(edge.adminPort, '127.0.0.1').on('error', () => {})
    socket.write(`GET /admin/v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${ADMIN_TOKEN}\r\n\r\n${bytes}`)
    socket.resume()
    await edge.decideTimes(2, ALICE)
    await client.untilNamed('reject')
    socket.destroy()
    expect((await askAdmin(edge.adminPort, 'GET', 'status')).status).toBe(200)
  })

  test('is sent without chunks to a client of HTTP/1.0', async () => {
    const edge = await running({ bundle: REJECTING, env: ADMIN_ENV })
    const socket = connect(edge.adminPort, '127.0.0.1')
    let received = ''
    socket.on('data', (chunk) => {
      received += chunk.toString()
    })
    socket.write(`GET /admin/v1/events HTTP/1.0\r\nHost: x\r\nAuthorization: Bearer ${ADMIN_TOKEN}\r\n\r\n`)
    await until(() => received.includes('retry: 3000\n\n'))
    await edge.decideTimes(2, ALICE)
    await until(() => received.includes('\n\nevent: reject\ndata: {'))
    expect(received).not.toContain('chunked')
    socket.destroy()
  })
})

test('what is wrong is known without a reader, and what is not is not passed on', async () => {
  const edge = await running({ bundle: REJECTING, env: ADMIN_ENV })
  await edge.publish('{')
  await until(async () => {
    const { json } = await askAdmin(edge.adminPort, 'GET', 'status')
    return json.problems.some(({ code }: { code: string }) => code === 'bundle_refused')
  })
  expect(await metric(edge.adminPort, 'edge_events_dropped_total{to="stream"}')).toBe(0)
})
