import { appendFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { BundleServer } from '../../support/bundles/bundle-server.ts'
import { known, urlEnv } from '../../support/bundles/bundle-url.ts'
import { bundle } from '../../support/bundles/bundles.ts'
import { Cli } from '../../support/service/cli.ts'
import { Edge } from '../../support/service/edge.ts'
import { HoldingHost } from '../../support/service/holding-host.ts'
import { ask } from '../../support/service/http.ts'
import { scratchDirectory } from '../../support/service/running.ts'
import { serverPort } from '../../support/service/server-port.ts'
import { original } from '../../support/service/wire.ts'
import { until } from '../../support/until.ts'
import { mortalEdge } from '../../support/workers/mortal-edge.ts'

describe.concurrent('the port opens', () => {
  test.for(['file', 'URL'])('when the first bundle is active, however long that takes after it has come from a %s', async (source, t) => {
    const server = await BundleServer.start(t)
    server.publish(known(1))
    const [port, adminPort] = [await serverPort(), await serverPort()]
    const env = { EDGE_PORT: String(port), EDGE_ADMIN_PORT: String(adminPort), ...(source === 'URL' && urlEnv(server.url)) }
    const held = new HoldingHost(({ type }) => type === 'prepare')
    // Once it has come, no time is too long.
    const pause = async (ms: number): Promise<void> => (ms > 0 ? until(() => held.isHolding) : undefined)
    const starting = Edge.start({ bundle: bundle(1), env, pause, aroundHost: (host) => held.around(host) })
    t.onTestFinished(async () => (await starting).stop())
    await until(() => held.isHolding)
    // Some turns later
    for (let i = 0; i < 20; i++) expect((await livez(adminPort))?.status).not.toBe(503)
    await expect(decide(port)).rejects.toMatchObject({ code: 'ECONNREFUSED' })
    held.letGo()
    await starting
    expect((await decide(port)).status).toBe(200)
  })

  test.for([
    ['a URL that does not respond', 10, { EDGE_ADMIN_PORT: '0' }],
    ['a URL that does not respond, where nothing else says that the process is alive,', 1, {}],
  ] as const)('without %s after %i s', async ([, seconds, env], t) => {
    const { server } = await silentServer(t)
    const pausesMs: number[] = []
    const pause = async (ms: number): Promise<void> => void pausesMs.push(ms)
    const edge = await Edge.start({ env: urlEnv(server.url, env), pause })
    t.onTestFinished(() => edge.stop())
    expect(pausesMs).toEqual([seconds * 1000])
    expect((await edge.decide()).headers['x-edge-reason']).toBe('no_bundle_loaded')
  })

  test('without a file that keeps changing after 10 s', async (t) => {
    const pausesMs: number[] = []
    const path = join(await scratchDirectory(t), 'bundle.json')
    await writeFile(path, '{}')
    const writing = setInterval(() => appendFileSync(path, ' '), 5)
    t.onTestFinished(() => clearInterval(writing))
    const pause = async (ms: number): Promise<void> => void pausesMs.push(ms)
    const edge = await Edge.start({ env: { EDGE_CONFIG_FILE: path }, pause })
    t.onTestFinished(() => edge.stop())
    expect(pausesMs).toEqual([10_000])
    expect((await edge.decide()).status).toBe(503)
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
    await until(async () => (await livez(adminPort))?.status === 200)
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
    void until(async () => (await livez(adminPort))?.status === 200)
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

/** Undefined where nobody listens. */
function livez(port: number) {
  return ask(port, 'GET', '/livez').catch(() => undefined)
}

function decide(port: number) {
  return ask(port, 'POST', '/v1/decision', original('/'))
}
