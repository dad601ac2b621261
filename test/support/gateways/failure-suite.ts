import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { blockRule, bundle, policy } from '../bundles/bundles.ts'
import { gateTo } from '../redis/tcp-gate.ts'
import type { Cli } from '../service/cli.ts'
import type { Edge } from '../service/edge.ts'
import { ask, type Fields } from '../service/http.ts'
import { ManualClock } from '../service/manual-clock.ts'
import { suspend } from '../service/process-facts.ts'
import { scratchDirectory, serving } from '../service/running.ts'
import { serverPort } from '../service/server-port.ts'
import { until } from '../until.ts'
import type { Gateway } from './gateway.ts'
import { ALICE, behind, edgeAllowing, oneRule, portFor, startEdge, statusAndReason, TWICE } from './gateway-setup.ts'

/** Heads around every bound: of the gateway, of its question, of edge. */
const HEAD_BYTES = [4_000, 7_000, 12_000, 14_500, 15_300, 15_900, 16_300, 30_000, 60_000, 70_000, 200_000, 900_000]

/** Around the usual bounds, which are 100 and 101 and more than a thousand. */
const FIELD_COUNTS = [50, ...Array.from({ length: 24 }, (_, i) => 80 + i), 128, 500, 1_000, 2_000, 3_000]

/** A server that refuses a head while it comes resets the connection: the gateway may take it for gone. */
const EDGE_READS_BYTES = 64 * 1024

/** What happens while edge cannot decide, and what a client can do to make that happen. */
export function failureSuite(gateway: Gateway): void {
  test('fails closed: 5xx, and no request reaches the backend, while edge is gone or has no bundle', async () => {
    const env = { EDGE_PORT: String(await serverPort()), EDGE_GRPC_PORT: String(await serverPort()) }
    const options = { bundle: oneRule(10), env }
    const edge = await startEdge(options)
    const { port, backend } = await behind(gateway, edge)
    expect((await ask(port, 'GET', '/', ALICE)).status).toBe(200)
    await edge.stop()
    expect((await ask(port, 'POST', '/', ALICE, 'a body')).status).toBeGreaterThanOrEqual(500)
    expect(backend.seen).toHaveLength(1)
    await startEdge(options)
    expect((await ask(port, 'GET', '/', ALICE)).status).toBe(200)
    const unready = await behind(gateway, await startEdge())
    expect((await ask(unready.port, 'GET', '/', ALICE)).status).toBeGreaterThanOrEqual(500)
    expect(unready.backend.seen).toHaveLength(0)
  })

  test('fails open where it is told to: requests reach the backend as they came while edge is gone or has no bundle', async () => {
    const edge = await edgeAllowing(10)
    const { port, backend } = await behind(gateway, edge, 'fail open')
    expect((await ask(port, 'GET', '/', ALICE)).status).toBe(200)
    await edge.stop()
    for (const body of ['a body', Buffer.alloc(1 << 20, 'edge')]) {
      expect((await ask(port, 'POST', '/path?query', ALICE, body)).status).toBe(200)
      const { method, url, headers, ...seen } = backend.seen.at(-1)!
      expect([method, url, headers['x-api-key'], String(await seen.body()) === String(body)]).toEqual([
        'POST',
        '/path?query',
        'alice',
        true,
      ])
    }
    const unready = await behind(gateway, await startEdge(), 'fail open')
    expect((await ask(unready.port, 'POST', '/path?query', ALICE, 'a body')).status).toBe(200)
    expect([unready.backend.only.url, String(await unready.backend.only.body())]).toEqual(['/path?query', 'a body'])
  })

  test('gives up on an edge that does not respond, in both variants, and asks it again afterwards', async () => {
    const edge = await edgeProcess()
    const closed = await behind(gateway, edge, 'fail closed', 'a second')
    const open = await behind(gateway, edge, 'fail open', 'a second')
    const patient = await behind(gateway, edge)
    // Where the machine stands still for a second, one of them gives up here, too.
    for (const { port, backend } of [closed, open]) {
      await until(async () => (await ask(port, 'GET', '/', ALICE)).status === 200)
      backend.seen.length = 0
    }
    await suspend(edge)
    let isPatienceOver = false
    const waiting = ask(patient.port, 'GET', '/', ALICE).finally(() => {
      isPatienceOver = true
    })
    const [refused, passed] = await Promise.all([closed, open].map(({ port }) => ask(port, 'GET', '/', ALICE)))
    expect([refused!.status >= 500, passed!.status, isPatienceOver]).toEqual([true, 200, false])
    expect([closed.backend.seen.length, open.backend.seen.length]).toEqual([0, 1])
    edge.process.kill('SIGCONT')
    await waiting
    for (const { port } of [closed, open]) {
      await until(async () => (await ask(port, 'GET', '/', TWICE)).headers['x-edge-reason'] === 'repeated_descriptor')
    }
  })

  test('takes a failure of the backend for no failure of edge: nothing is sent twice', async () => {
    const edge = await edgeAllowing(10)
    const { port, backend } = await behind(gateway, edge, 'fail open')
    backend.handler = async (req, _res, seen) => {
      await seen.body()
      req.socket.destroy()
    }
    expect((await ask(port, 'POST', '/', ALICE, 'a body')).status).toBeGreaterThanOrEqual(500)
    expect(backend.seen).toHaveLength(1)
    await backend.close()
    expect((await ask(port, 'POST', '/', ALICE, 'a body')).status).toBeGreaterThanOrEqual(500)
    expect(await edge.metric(`edge_questions_total{door="${gateway.door}",outcome="allow"}`)).toBe(2)
  })

  test('fails open for no client: a repeated key, a block and a reject stay what they are', async () => {
    const rules = [blockRule('acme', { 'header:x-api-key': 'blocked' })]
    const { port, backend } = await behind(gateway, await edgeWith(rules), 'fail open')
    for (let i = 0; i < 3; i++) expect(statusAndReason(await ask(port, 'GET', '/', TWICE))).toEqual([400, 'repeated_descriptor'])
    expect(statusAndReason(await ask(port, 'GET', '/', [['X-Api-Key', 'blocked']]))).toEqual([403, 'blocked'])
    expect((await ask(port, 'GET', '/', ALICE)).status).toBe(200)
    expect(statusAndReason(await ask(port, 'GET', '/', ALICE))).toEqual([429, 'token_bucket_exceeded'])
    expect(backend.seen).toHaveLength(1)
  })

  test('nor for a head that is too large for the gateway, and it asks with none that is too large for edge', async () => {
    const gate = await gateTo(portFor(gateway, await edgeWith([blockRule('all')])))
    const { port, backend } = await behind(gateway, gate, 'fail open')
    const statuses: number[] = []
    for (const bytes of HEAD_BYTES) {
      const before = gate.bytes.requests
      // One that hears nothing but a closed connection was refused, too.
      const asked = ask(port, 'GET', '/', padding(bytes))
      statuses.push(
        await asked.then(
          ({ status }) => status,
          () => 0,
        ),
      )
      expect(gate.bytes.requests - before).toBeLessThan(EDGE_READS_BYTES)
    }
    expect(statuses.filter((status) => status >= 500 || (status >= 100 && status < 400))).toEqual([])
    expect([statuses[0], backend.seen.length]).toEqual([403, 0])
  })

  test('nor for a head of many fields, and no number of them breaks it', async () => {
    const { port, backend } = await behind(gateway, await edgeWith([blockRule('all')]), 'fail open')
    for (const count of FIELD_COUNTS) {
      const status = await statusWithFields(port, count)
      expect([count, status]).toEqual([count, expect.toSatisfy((code: number) => code >= 400 && code < 500)])
    }
    expect([await statusWithFields(port, 1), backend.seen.length]).toEqual([403, 0])
  })
}

/** Sends that many fields of a few bytes each. */
async function statusWithFields(port: number, count: number): Promise<number> {
  const fields = Array.from({ length: count }, (_, i) => [`F${i}`, ''] as const)
  return (await ask(port, 'GET', '/', fields)).status
}

async function edgeWith(rules: readonly object[]): Promise<Edge> {
  const limited = oneRule(1) as { policies: Parameters<typeof bundle>[1][] }
  return startEdge({ bundle: bundle(1, policy('incident', { rules }), ...limited.policies), clock: new ManualClock() })
}

/** Fields of about so many bytes, none of them larger than a gateway takes. */
function padding(bytes: number): Fields {
  const each = 3_900
  return Array.from({ length: Math.ceil(bytes / each) }, (_, i) => [`X-Pad-${i}`, 'x'.repeat(Math.min(each, bytes - i * each))] as const)
}

async function edgeProcess(): Promise<Cli> {
  const file = join(await scratchDirectory(), 'bundle.json')
  await writeFile(file, JSON.stringify(oneRule(10)))
  return serving({ EDGE_CONFIG_FILE: file, EDGE_GRPC_PORT: '0' })
}
