import { beforeAll, expect } from 'vitest'
import type { Edge } from '../service/edge.ts'
import { thisSuite } from '../service/suite-owner.ts'
import { until } from '../until.ts'
import { RawBackend } from './backend.ts'
import { askRaw, proxying, type RawAnswer, RawClient, valuesOf } from './proxy.ts'

export const GET = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'
export const POST = 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc'
export const CHUNKED = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n'
export const COUNTED = 'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf'
export const ENDLESS = 'HTTP/1.1 200 OK\r\n\r\nhalf'

interface FailingBackend {
  readonly backend: RawBackend
  readonly edge: Edge
}

/** One for a table whose rows change nothing but what the backend says. */
export function sharedProxy(): FailingBackend {
  const suite = thisSuite()
  const shared = {} as { backend: RawBackend; edge: Edge }
  beforeAll(async () => {
    shared.backend = await RawBackend.start(() => {}, undefined, suite)
    shared.edge = await proxying(shared.backend, {}, suite)
  })
  return shared
}

/** Asks twice on one connection: a failure ends no connection that a client keeps. */
export async function expectFailure(edge: Edge, request: string, status: number, reason: string): Promise<void> {
  const answer = await askRaw(edge.port, request.replace('Host: a', 'Host: a\r\nConnection: close'))
  expectReason(answer, status, reason)
  expect((await edge.get('/livez')).body).toBe('ok')
  expect(await edge.metric('edge_proxy_open_requests')).toBe(0)
}

function expectReason(answer: RawAnswer, status: number, reason: string): void {
  expect([answer.status, valuesOf(answer, 'X-Edge-Reason'), valuesOf(answer, 'Content-Type')]).toEqual([
    status,
    [reason],
    ['application/json'],
  ])
  expect(JSON.parse(answer.body).error).toMatchObject({ type: 'backend_error', code: reason, message: expect.any(String) })
}

export function say(backend: RawBackend, bytes: string): void {
  backend.connections.at(-1)!.socket.write(bytes)
}

export function end(backend: RawBackend, bytes: string): void {
  backend.connections.at(-1)!.socket.end(bytes)
}

export function reset(backend: RawBackend): void {
  backend.connections.at(-1)!.socket.resetAndDestroy()
}

/** These bytes are no answer: 502, asked once, and the connection is closed. */
export async function expectInvalid({ backend, edge }: FailingBackend, bytes: string): Promise<void> {
  const heads = backend.heads
  backend.script = ({ socket }) => void socket.write(Buffer.from(bytes, 'latin1'))
  await expectFailure(edge, GET, 502, 'backend_invalid')
  await until(() => backend.openConnections === 0)
  expect(backend.heads).toBe(heads + 1)
}

/** The client sees that this answer broke off. */
export async function expectHalfAnswer(
  { backend, edge }: FailingBackend,
  begin: string,
  fail: (backend: RawBackend) => unknown,
  reason: string,
): Promise<void> {
  const failures = await edge.metric(`edge_backend_failures_total{reason="${reason}"}`)
  backend.script = ({ socket }) => void socket.write(begin)
  const client = RawClient.connect(edge.port)
  client.send(GET)
  await client.sees('half')
  fail(backend)
  const received = await client.closed()
  expect([client.errorCode, client.hasEnded]).toEqual(['ECONNRESET', false])
  expect(received).not.toContain('\r\n0\r\n')
  await until(() => backend.openConnections === 0)
  expect(await edge.metric(`edge_backend_failures_total{reason="${reason}"}`)).toBe(failures + 1)
  expect(await edge.metric('edge_proxy_open_requests')).toBe(0)
  expect((await edge.get('/livez')).body).toBe('ok')
}
