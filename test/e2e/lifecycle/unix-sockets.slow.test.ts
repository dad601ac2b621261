import { readdirSync, rmSync, statSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { Edge } from '../../support/service/edge.ts'
import { HoldingHost } from '../../support/service/holding-host.ts'
import { ask, exchange } from '../../support/service/http.ts'
import { running, scratchDirectory } from '../../support/service/running.ts'
import { BURST, SOCKET_BUNDLE, socketPath } from '../../support/service/unix-socket.ts'
import { until } from '../../support/until.ts'

const QUESTION = 'POST /v1/decision HTTP/1.1\r\nHost: a\r\nX-Original-Method: GET\r\nX-Original-URI: /\r\nX-Api-Key: alice\r\n'

describe('a unix socket', () => {
  test('has health and metrics where there is neither a port nor an admin port', async () => {
    const path = await socketPath()
    await running({ bundle: SOCKET_BUNDLE, env: { EDGE_PORT: 'off', EDGE_SOCKET: path } })
    expect((await ask(path, 'GET', '/readyz')).status).toBe(200)
    expect((await ask(path, 'GET', '/metrics')).body).toContain('edge_connections_refused_total{port="socket"} 0')
  })

  test('leaves operators their port', async () => {
    const path = await socketPath()
    const edge = await running({ bundle: SOCKET_BUNDLE, env: { EDGE_PORT: 'off', EDGE_SOCKET: path, EDGE_ADMIN_PORT: '0' } })
    expect((await ask(edge.adminPort, 'GET', '/readyz')).status).toBe(200)
    expect((await ask(path, 'GET', '/readyz')).status).toBe(404)
  })

  test('answers pipelined questions in turn', async () => {
    const path = await socketPath()
    await running({ bundle: SOCKET_BUNDLE, env: { EDGE_SOCKET: path } })
    const received = await exchange(path, `${`${QUESTION}\r\n`.repeat(BURST + 1)}${QUESTION}Connection: close\r\n\r\n`)
    expect(received.match(/^HTTP\/1\.1 \d+/gm)).toEqual([200, 200, 200, 429, 429].map((status) => `HTTP/1.1 ${status}`))
  })

  test('has a path as long as an address allows', async () => {
    const directory = await scratchDirectory()
    const path = join(directory, 'x'.repeat(107 - directory.length - 1))
    const edge = await running({ env: { EDGE_PORT: 'off', EDGE_SOCKET: path } })
    expect((await ask(path, 'GET', '/livez')).status).toBe(200)
    await edge.stop()
    expect(readdirSync(directory)).toEqual([])
  })
})

test('a path is taken, and has its permissions, before anybody can connect', async () => {
  const path = await socketPath()
  const held = new HoldingHost((message) => message.type === 'listen')
  const env = { EDGE_PORT: 'off', EDGE_SOCKET: path }
  const first = Edge.start({ env, aroundHost: (host) => held.around(host) })
  await until(() => held.isHolding)
  expect(statSync(path).mode & 0o7777).toBe(0o660)
  await expect(ask(path, 'GET', '/livez')).rejects.toMatchObject({ code: 'ECONNREFUSED' })
  await expect(Edge.start({ env })).rejects.toMatchObject({ message: `${path} is in use by another process` })
  held.letGo()
  const edge = await first
  expect((await ask(path, 'GET', '/livez')).status).toBe(200)
  await edge.stop()
})

test('at shutdown a file that another process has put in its place stays', async () => {
  const path = await socketPath()
  const edge = await running({ env: { EDGE_SOCKET: path } })
  rmSync(path)
  const other = createServer((socket) => socket.end('other'))
  onTestFinished(() => void other.close())
  await new Promise<void>((resolve) => other.listen(path, resolve))
  await edge.stop()
  let received = ''
  connect(path).on('data', (chunk) => {
    received += chunk.toString()
  })
  await until(() => received === 'other')
})
