import { once } from 'node:events'
import { describe, expect, onTestFinished, test } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import { offer } from '../../support/bundles/bundle-file.ts'
import { bucketRule, bundle, llmRule, policy } from '../../support/bundles/bundles.ts'
import { CHAT, HELLO, HELLO_TOKENS } from '../../support/llm/llm-proxy.ts'
import { chatChunk, chatStream } from '../../support/llm/llm-streams.ts'
import { scriptedLlm } from '../../support/llm/scripted-llm.ts'
import { StreamClient } from '../../support/llm/stream-client.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { proxyEnv, valuesOf } from '../../support/proxy/proxy.ts'
import type { Cli } from '../../support/service/cli.ts'
import { ask } from '../../support/service/http.ts'
import { metricsOf } from '../../support/service/metrics.ts'
import { until } from '../../support/until.ts'
import { Crowd } from '../../support/workers/crowd.ts'
import { servingOn } from '../../support/workers/workers.ts'

const WORKERS = 3
const BUDGET = 20_000
const RESERVED = HELLO_TOKENS + 100

describe('a proxy of several workers', () => {
  test('forwards on all of them, counts on one table, and answers for all on its admin port', async () => {
    const backend = await HttpBackend.start((_req, res) => void res.setHeader('Content-Length', 2).end('ok'))
    const rules = [bucketRule('r', [], 1000, 0.0001)]
    const cli = await servingOn(WORKERS, bundle(1, policy('p', { rules })), { ...proxyEnv(backend.url), EDGE_ADMIN_PORT: '0' })
    const admin = adminPort(cli)
    const crowd = await Crowd.gather(cli.port, admin)
    const answers = await crowd.ask('GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n')

    // The path is the backend's own, once the endpoints have a port of their own.
    expect(answers.map(({ status, body }) => [status, body])).toEqual(Array(crowd.size).fill([200, 'ok']))
    expect(backend.seen).toHaveLength(crowd.size)
    const remaining = answers.map((answer) => Number(valuesOf(answer, 'RateLimit-Remaining')[0]))
    expect(remaining.sort((a, b) => b - a)).toEqual(Array.from({ length: crowd.size }, (_, i) => 999 - i))
    expect((await metricsOf(admin)).value('edge_backend_responses_total{status="2xx"}')).toBe(crowd.size)
    expect(JSON.parse((await ask(admin, 'GET', '/readyz')).body)).toMatchObject({ policy_version: '1' })
  })

  test('carries WebSockets on all of them, and counts them together', async () => {
    const backend = await HttpBackend.start()
    const echo = new WebSocketServer({ server: backend.server })
    echo.on('connection', (socket) => socket.on('message', (data: Buffer) => socket.send(data)))
    const cli = await servingOn(WORKERS, bundle(1), { ...proxyEnv(backend.url), EDGE_ADMIN_PORT: '0' })
    const sockets = Array.from({ length: 24 }, () => new WebSocket(`ws://127.0.0.1:${cli.port}/`))
    onTestFinished(() => {
      for (const socket of [...sockets, ...echo.clients]) socket.terminate()
    })
    await Promise.all(sockets.map((socket) => once(socket, 'open')))
    const heard = sockets.map(async (socket) => String((await once(socket, 'message'))[0]))
    sockets.forEach((socket, i) => void socket.send(`message ${i}`))

    expect(await Promise.all(heard)).toEqual(sockets.map((_, i) => `message ${i}`))
    const metrics = await metricsOf(adminPort(cli))
    expect(metrics.value('edge_proxy_open_tunnels')).toBe(24)
    expect(Math.min(...metrics.connections)).toBeGreaterThan(0)
    for (const socket of sockets) socket.close()
    await until(async () => (await metricsOf(adminPort(cli))).value('edge_proxy_open_tunnels') === 0)
  })

  test('settles what was reserved under a rule that is gone, on every worker, and the rule finds it settled when it is back', async () => {
    const backend = await scriptedLlm()
    const cli = await servingOn(WORKERS, withBudget(1), { ...proxyEnv(`http://127.0.0.1:${backend.port}`), EDGE_SHUTDOWN_MS: '0' })
    const body = JSON.stringify({ model: 'm', stream: true, messages: HELLO, max_tokens: 100 })
    const clients = Array.from({ length: 16 }, () => new StreamClient(cli.port, CHAT, body))
    await until(() => backend.calls.length === clients.length)
    for (const call of backend.calls) {
      call.begin()
      await call.write(chatChunk({ content: 'abcd' }))
    }
    await Promise.all(clients.map((client) => client.untilText('abcd')))
    expect(await available(cli)).toBe(BUDGET - clients.length * RESERVED)

    expect(await offer(cli, bundle(2))).toMatchObject({ event: 'bundle_applied' })
    for (const call of backend.calls) call.end(chatStream(['efgh']))
    await Promise.all(clients.map((client) => client.untilClosed()))
    await until(async () => (await metricsOf(cli.port)).value('edge_llm_settlements_total{end="done"}') === clients.length)

    expect(await offer(cli, withBudget(3))).toMatchObject({ event: 'bundle_applied' })
    expect(clients.map(({ outcome }) => outcome)).toEqual(Array(clients.length).fill('whole'))
    const metrics = await metricsOf(cli.port)
    const used = metrics.value('edge_llm_tokens_used_total{policy="llm",rule="budget"}')
    expect(used).toBeLessThan(clients.length * RESERVED)
    expect(await available(cli)).toBe(BUDGET - used)
  })
})

/** Of which hardly anything comes back by itself while the test runs. */
function withBudget(version: number): object {
  const config = { tokens_per_minute: 1, burst_tokens: BUDGET, max_completion_tokens: 100 }
  return bundle(version, policy('llm', { rules: [llmRule('budget', [], config)] }))
}

/** What the budget has left: a request for more than it can ever give is told. */
async function available(cli: Cli): Promise<number> {
  const { body } = await ask(cli.port, 'POST', '/v1/embeddings', [], `{"input":[${'1,'.repeat(BUDGET)}1]}`)
  return Number(/and (\d+) are available/.exec(JSON.parse(body).error.message)![1])
}

function adminPort(cli: Cli): number {
  return Number(/admin\s+http:\/\/127\.0\.0\.1:(\d+)/.exec(cli.stdout)![1])
}
