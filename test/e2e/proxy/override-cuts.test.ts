import { once } from 'node:events'
import { describe, expect, onTestFinished, test } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import { ADMIN_ENV, askAdmin } from '../../support/admin/admin-client.ts'
import { Operator } from '../../support/admin/operator.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { StreamClient } from '../../support/llm/stream-client.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { proxying } from '../../support/proxy/proxy.ts'
import type { Edge } from '../../support/service/edge.ts'
import { metric } from '../../support/service/metrics.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { until } from '../../support/until.ts'

const API = policy('api', { rules: [bucketRule('per-org', ['header:x-org'], 100)] })
const BUNDLE = bundle(1, API)
const ACME = { policy: 'api', rule: 'per-org', values: { 'header:x-org': 'acme' } }

/** Begins each stream when the test says so. */
async function proxyOfStreams(): Promise<{ edge: Edge; operator: Operator; begin: () => void; open: (org: string) => StreamClient }> {
  const waiting: (() => void)[] = []
  const backend = await HttpBackend.start((_req, res) => {
    waiting.push(() => res.writeHead(200, { 'Content-Type': 'text/event-stream' }).write('data: 1\n\n'))
  })
  const edge = await proxying(backend, { bundle: BUNDLE, env: ADMIN_ENV })
  let opened = 0
  const open = (org: string): StreamClient => {
    const client = new StreamClient(edge.port, '/events', '', [['X-Org', org]])
    onTestFinished(() => client.abort())
    opened++
    return client
  }
  const begin = async (): Promise<void> => {
    await until(() => waiting.length === opened)
    for (const each of waiting.splice(0)) each()
    opened = 0
  }
  return { edge, operator: new Operator(edge.adminPort), begin, open }
}

describe('an override that blocks', () => {
  test('with cut_streams ends the open streams of that caller, and no others', async () => {
    const { edge, operator, begin, open } = await proxyOfStreams()
    const [acme, umbrella] = [open('acme'), open('umbrella')]
    await begin()
    await Promise.all([acme, umbrella].map((client) => client.untilText('data: 1')))
    expect(await metric(edge.adminPort, 'edge_proxy_open_streams')).toBe(2)
    const block = await operator.override({ ...ACME, block: true, cut_streams: true })
    expect(block).toMatchObject({ block: true, cut_streams: true, streams: { open: 2, cut: true, ended: 1 } })
    await acme.untilClosed()
    expect([acme.outcome, umbrella.outcome]).toEqual(['whole', 'open'])
    expect(await metric(edge.adminPort, 'edge_proxy_streams_cut_total{policy="api",rule="per-org"}')).toBe(1)
    const edited = await askAdmin(edge.adminPort, 'PATCH', `overrides/${block.id}`, {
      body: { block: true, reason: 'a new end', until: '3h' },
    })
    expect(edited.json).toMatchObject({ cut_streams: true, streams: { open: 1, cut: true, ended: 0 } })
    expect(await untilLogged(edge, 'streams_cut')).toMatchObject([{ policy: 'api', rule: 'per-org', streams: 1 }])
    expect(await untilLogged(edge, 'override_set')).toMatchObject([{ change: 'block cut_streams' }])
    expect(await metric(edge.adminPort, 'edge_proxy_open_streams')).toBe(1)
  })

  test('without cut_streams lets open streams go on, until it is edited to cut them', async () => {
    const { edge, operator, begin, open } = await proxyOfStreams()
    const acme = open('acme')
    await begin()
    await acme.untilText('data: 1')
    const preview = { until: '1h', reason: 'a test', ...ACME, block: true }
    expect((await askAdmin(edge.adminPort, 'POST', 'overrides/preview', { body: preview })).json.streams).toEqual({ open: 1, cut: false })
    const { id, streams } = await operator.override({ ...ACME, block: true })
    expect(streams).toEqual({ open: 1, cut: false })
    expect(await open('acme').untilClosed()).toMatchObject({ status: 403 })
    // Its moment has passed, and whatever it would cut has been looked at.
    expect([acme.outcome, edge.logged('streams_cut')]).toEqual(['open', []])
    const edit = { cut_streams: true, reason: 'it goes on' }
    expect((await askAdmin(edge.adminPort, 'PATCH', `overrides/${id}`, { body: edit })).json).toMatchObject({
      id,
      streams: { open: 1, cut: true, ended: 1 },
    })
    await acme.untilClosed()
    expect(acme.outcome).toBe('whole')
    const change = async (body: object) =>
      (await askAdmin(edge.adminPort, 'PATCH', `overrides/${id}`, { body: { reason: 'a test', ...body } })).json
    expect(await change({ block: true, cut_streams: false })).toMatchObject({ cut_streams: false, streams: { cut: false } })
    expect(await change({ block: true })).toMatchObject({ cut_streams: false })
    expect(await change({ multiply: 2 })).not.toHaveProperty('cut_streams')
    expect(await change({ block: true })).toMatchObject({ cut_streams: false })
  })

  test('for all callers ends all streams, also one that was let pass before and begins after', async () => {
    const { edge, operator, begin, open } = await proxyOfStreams()
    const [early, late] = [open('acme'), open('umbrella')]
    await until(async () => (await metric(edge.adminPort, 'edge_proxy_open_requests')) === 2)
    await operator.override({ ...ACME, values: undefined, all: true, block: true, cut_streams: true })
    expect([early.outcome, late.outcome]).toEqual(['open', 'open'])
    await begin()
    await Promise.all([early, late].map((client) => client.untilClosed()))
    await until(() => edge.logged('streams_cut').length === 2)
  })

  test('closes WebSockets', async () => {
    const backend = await HttpBackend.start()
    const sockets = new WebSocketServer({ server: backend.server })
    onTestFinished(() => sockets.close())
    const edge = await proxying(backend, { bundle: BUNDLE, env: ADMIN_ENV })
    const socket = new WebSocket(`ws://127.0.0.1:${edge.port}/`, { headers: { 'X-Org': 'acme' } })
    onTestFinished(() => socket.terminate())
    await once(socket, 'open')
    const closed = once(socket, 'close')
    await new Operator(edge.adminPort).override({ ...ACME, block: true, cut_streams: true })
    await closed
    await until(async () => (await metric(edge.adminPort, 'edge_proxy_open_streams')) === 0)
  })
})

test('an override that waits for its rule ends streams when a bundle brings the rule back', async () => {
  const { edge, operator, begin, open } = await proxyOfStreams()
  const { id } = await operator.override({ ...ACME, block: true, cut_streams: true })
  await edge.publish(bundle(2, policy('other', { rules: [bucketRule('r', [], 100)] })))
  expect(await operator.overrides()).toMatchObject([{ id, in_force: false }])
  const acme = open('acme')
  await begin()
  await acme.untilText('data: 1')
  await edge.publish(bundle(3, API))
  await acme.untilClosed()
  expect(await untilLogged(edge, 'streams_cut')).toMatchObject([{ policy: 'api', rule: 'per-org', streams: 1 }])
})
