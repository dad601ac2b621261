import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { BundleServer } from '../../support/bundles/bundle-server.ts'
import { known, urlEnv } from '../../support/bundles/bundle-url.ts'
import { bundle } from '../../support/bundles/bundles.ts'
import { Cli } from '../../support/service/cli.ts'
import { Edge } from '../../support/service/edge.ts'
import { HoldingHost } from '../../support/service/holding-host.ts'
import { ask } from '../../support/service/http.ts'
import { serverPort } from '../../support/service/server-port.ts'
import { original } from '../../support/service/wire.ts'
import { until } from '../../support/until.ts'
import { mortalEdge } from '../../support/workers/mortal-edge.ts'

/** As long as a URL is waited for where there is no admin port. */
const UNSEEN_MS = 1000

describe.concurrent('the port opens', () => {
  test.for(['file', 'URL'])('when the first bundle is active, however long that takes after it has come from a %s', async (source, t) => {
    const server = await BundleServer.start(t)
    server.publish(known(1))
    const port = await serverPort()
    const env = { EDGE_PORT: String(port), ...(source === 'URL' && urlEnv(server.url)) }
    const held = new HoldingHost(({ type }) => type === 'prepare')
    const starting = Edge.start({ bundle: bundle(1), env, aroundHost: (host) => held.around(host) })
    t.onTestFinished(async () => (await starting).stop())
    await until(() => held.isHolding)
    // Timers of one thread fire in order: the wait of a start that goes by the clock ends before this one.
    await sleep(UNSEEN_MS + 50)
    await expect(decide(port)).rejects.toMatchObject({ code: 'ECONNREFUSED' })
    held.letGo()
    await starting
    expect((await decide(port)).status).toBe(200)
  })

  test('when the first bundle is known to be invalid', async (t) => {
    const edge = await Edge.start({ bundle: 'nonsense' })
    t.onTestFinished(() => edge.stop())
    expect((await edge.get('/readyz')).status).toBe(503)
    expect(edge.log.findIndex(({ event }) => event === 'bundle_refused')).toBeLessThan(
      edge.log.findIndex(({ event }) => event === 'started'),
    )
  })

  test('for operators at once, and for requests when the URL has answered', async (t) => {
    const { server, answer } = await silentServer(t)
    const port = await serverPort()
    const adminPort = await serverPort()
    const env = urlEnv(server.url, { EDGE_PORT: String(port), EDGE_ADMIN_PORT: String(adminPort) })
    const starting = Edge.start({ env })
    t.onTestFinished(async () => (await starting).stop())
    await until(async () => (await ask(adminPort, 'GET', '/livez').catch(() => undefined))?.status === 200)
    expect(await ask(adminPort, 'GET', '/readyz')).toMatchObject({
      status: 503,
      body: '{"status":"not_ready","reason":"no_policy_loaded"}',
    })
    await expect(decide(port)).rejects.toMatchObject({ code: 'ECONNREFUSED' })
    await until(() => server.requests.length > 0)
    answer()
    const edge = await starting
    expect((await decide(port)).status).toBe(200)
    const told = edge.log.map(({ event }) => event).filter((event) => event !== 'waiting_for_bundle')
    expect(told).toEqual(['admin_listening', 'bundle_applied', 'started'])
  })
})

test('a worker that dies while the first bundle is waited for is replaced, and the start goes on', async (t) => {
  const { server, answer } = await silentServer(t)
  const adminPort = await serverPort()
  const env = urlEnv(server.url, { EDGE_ADMIN_PORT: String(adminPort), EDGE_WORKERS: '2' })
  const starting = mortalEdge(2, { env }, (host) => {
    void until(async () => (await ask(adminPort, 'GET', '/livez').catch(() => undefined))?.status === 200)
      .then(() => host.terminate(2))
      .then(() => until(() => server.requests.length > 0))
      .then(answer)
  })
  const mortal = await starting
  expect(mortal.events('worker_died')).toMatchObject([{ worker: 2 }])
  expect(mortal.events('worker_replaced')).toMatchObject([{ worker: 2 }])
  expect((await mortal.edge.decide()).status).toBe(200)
})

test.concurrent('the service is not ready before its port is open, though its bundle is active', async (t) => {
  const adminPort = await serverPort()
  const held = new HoldingHost((message) => message.type === 'listen' && message.listener === 'main')
  const env = { EDGE_ADMIN_PORT: String(adminPort) }
  const starting = Edge.start({ bundle: bundle(1), env, aroundHost: (host) => held.around(host) })
  t.onTestFinished(async () => (await starting).stop())
  await until(() => held.isHolding)
  expect(await ask(adminPort, 'GET', '/readyz')).toMatchObject({ status: 503, body: '{"status":"not_ready","reason":"starting"}' })
  held.letGo()
  await starting
  expect((await ask(adminPort, 'GET', '/readyz')).status).toBe(200)
})

// A start that is not interrupted would open its port after ten seconds, and so after this test.
test.concurrent('a signal while the first bundle is waited for ends the process, and the port never opens', {
  timeout: 9000,
}, async (t) => {
  const { server } = await silentServer(t)
  const cli = new Cli(['serve'], {
    EDGE_PORT: '0',
    EDGE_HOST: '127.0.0.1',
    EDGE_DRAIN_MS: '60000',
    ...urlEnv(server.url, { EDGE_ADMIN_PORT: '0' }),
  })
  t.onTestFinished(() => void cli.process.kill('SIGKILL'))
  await until(() => server.requests.length > 0 && cli.logged('waiting_for_bundle').length > 0)
  expect(await cli.stop()).toBe(0)
  expect(cli.log.map(({ event }) => event)).toEqual(['admin_listening', 'waiting_for_bundle', 'stopping', 'stopped'])
  expect(cli.logged('stopping')).toMatchObject([{ reason: 'SIGTERM', drain_ms: 0 }])
  expect(cli.stdout).toBe('')
})

interface SilentServer {
  readonly server: BundleServer
  /** Whoever has asked gets the bundle. */
  readonly answer: () => void
}

async function silentServer(t: { onTestFinished(end: () => void | Promise<void>): void }): Promise<SilentServer> {
  const server = await BundleServer.start(t)
  const waiting: (() => void)[] = []
  server.respond = (_req, res) => {
    waiting.push(() => res.writeHead(200, { 'Content-Type': 'application/json' }).end(known(1)))
  }
  const answer = (): void => {
    for (const respond of waiting.splice(0)) respond()
  }
  return { server, answer }
}

function decide(port: number) {
  return ask(port, 'POST', '/v1/decision', original('/'))
}
