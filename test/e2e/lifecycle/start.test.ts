import { appendFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { BundleServer } from '../../support/bundles/bundle-server.ts'
import { known, urlEnv } from '../../support/bundles/bundle-url.ts'
import { bundle } from '../../support/bundles/bundles.ts'
import { silentServer } from '../../support/bundles/silent-server.ts'
import { Edge } from '../../support/service/edge.ts'
import { HoldingHost } from '../../support/service/holding-host.ts'
import { ask } from '../../support/service/http.ts'
import { scratchDirectory } from '../../support/service/running.ts'
import { serverPort } from '../../support/service/server-port.ts'
import { original } from '../../support/service/wire.ts'
import { until } from '../../support/until.ts'

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
    // No answer is waited for too long.
    const pause = async (ms: number): Promise<void> => (ms > 0 ? new Promise(() => {}) : undefined)
    const starting = Edge.start({ env, pause })
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

/** Undefined where nobody listens. */
function livez(port: number) {
  return ask(port, 'GET', '/livez').catch(() => undefined)
}

function decide(port: number) {
  return ask(port, 'POST', '/v1/decision', original('/'))
}
