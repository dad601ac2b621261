import { describe, expect, test } from 'vitest'
import { HttpBackend, RawBackend } from '../../support/proxy/backend.ts'
import { RawClient, readAnswer, servingProxy, valuesOf } from '../../support/proxy/proxy.ts'
import type { Cli } from '../../support/service/cli.ts'
import { ask } from '../../support/service/http.ts'
import { until } from '../../support/until.ts'

/** Processes with two workers, ended by signals. */

const GET = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'
const WEBSOCKET = 'GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'
const SWITCHED = 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n'
const CHUNKED = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n'
/** Longer than any test. */
const LONG = '600000'

describe('while the proxy drains', () => {
  test('it is not ready and serves on; every answer is the last of its connection', async () => {
    const backend = await HttpBackend.start()
    const cli = await serve(backend, { EDGE_DRAIN_MS: LONG })
    const client = RawClient.connect(cli.port)
    client.send(GET)
    expect(valuesOf(await firstAnswer(client), 'Connection')).toEqual(['keep-alive'])
    cli.process.kill('SIGTERM')
    // A worker is told after the line was logged.
    await until(async () => (await ask(cli.port, 'GET', '/readyz')).status === 503)
    expect(await ask(cli.port, 'GET', '/readyz')).toMatchObject({ status: 503, body: '{"status":"not_ready","reason":"shutting_down"}' })
    expect((await ask(cli.port, 'GET', '/livez')).status).toBe(200)
    client.received = ''
    client.send(GET)
    const answer = readAnswer(await client.closed())
    expect([answer.status, valuesOf(answer, 'Connection')]).toEqual([200, ['close']])
    expect(await ask(cli.port, 'POST', '/', [], 'x')).toMatchObject({ status: 200, body: 'hello' })
    expect(cli.process.exitCode).toBeNull()
  })
})

describe('when the proxy stops', () => {
  test('what is still open after EDGE_SHUTDOWN_MS is cut, on both sides, and the exit status is 0', async () => {
    const backend = await RawBackend.start(({ socket }, index) => void socket.write(['', CHUNKED, SWITCHED][index]!))
    const cli = await serve(backend, { EDGE_SHUTDOWN_MS: '300' })
    const waiting = RawClient.connect(cli.port)
    waiting.send(GET)
    await until(() => backend.heads === 1)
    const streaming = RawClient.connect(cli.port)
    streaming.send(GET)
    await streaming.sees('one')
    const socket = RawClient.connect(cli.port)
    socket.send(WEBSOCKET)
    await socket.sees(' 101 ')
    expect(await cli.stop()).toBe(0)
    await until(() => waiting.isClosed && streaming.isClosed && socket.isClosed && backend.openConnections === 0)
    expect(streaming.received).not.toContain('\r\n0\r\n')
    expect(cli.log.at(-1)).toMatchObject({ event: 'stopped' })
  })

  test('a second signal ends it at once', async () => {
    const backend = await RawBackend.saying(CHUNKED)
    const cli = await serve(backend, { EDGE_SHUTDOWN_MS: LONG })
    const client = RawClient.connect(cli.port)
    client.send(GET)
    await client.sees('one')
    cli.process.kill('SIGTERM')
    await until(() => hasLogged(cli, 'stopping'))
    await until(() => cli.process.exitCode !== null || !cli.process.kill('SIGTERM'))
    await until(() => client.isClosed && backend.openConnections === 0)
  })
})

function serve(backend: { readonly url: string }, env: Readonly<Record<string, string>>): Promise<Cli> {
  return servingProxy(backend, { EDGE_WORKERS: '2', ...env })
}

async function firstAnswer(client: RawClient): Promise<ReturnType<typeof readAnswer>> {
  await client.sees('hello')
  return readAnswer(client.received)
}

function hasLogged(cli: Cli, name: string): boolean {
  return cli.log.some(({ event }) => event === name)
}
