import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { replaceFile } from '../../support/bundles/bundle-file.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { Edge } from '../../support/service/edge.ts'
import { HoldingHost } from '../../support/service/holding-host.ts'
import { ask } from '../../support/service/http.ts'
import { metricsOf } from '../../support/service/metrics.ts'
import { scratchDirectory } from '../../support/service/running.ts'
import { serverPort } from '../../support/service/server-port.ts'
import { original } from '../../support/service/wire.ts'
import { until } from '../../support/until.ts'
import { mortalEdge } from '../../support/workers/mortal-edge.ts'
import type { MortalHost } from '../../support/workers/mortal-host.ts'

const LISTENERS = ['admin', 'main'] as const

describe.each(LISTENERS)('while the %s listener is being opened', (listener) => {
  test('a worker that dies is replaced, and the start goes on', async () => {
    const held = holding(listener)
    let mortalHost: MortalHost | undefined
    const starting = mortalEdge(
      2,
      { bundle: bundle(1), env: { EDGE_ADMIN_PORT: '0' }, aroundHost: (host) => held.around(host) },
      (host) => {
        mortalHost = host
      },
    )
    await until(() => held.isHolding)
    await mortalHost!.terminate(2)
    held.letGo()
    const mortal = await starting
    await mortal.untilReplaced()
    expect(mortal.events('worker_died')).toMatchObject([{ worker: 2 }])
    expect((await metricsOf(mortal.edge.adminPort)).value('edge_workers')).toBe(2)
    expect((await mortal.edge.decide()).status).toBe(200)
  })

  test('a signal ends the start, and no listener is left open', async () => {
    const held = holding(listener)
    const [port, adminPort] = [await serverPort(), await serverPort()]
    const interrupt = new AbortController()
    const starting = Edge.start({
      bundle: bundle(1),
      env: { EDGE_PORT: String(port), EDGE_ADMIN_PORT: String(adminPort) },
      interrupt: interrupt.signal,
      aroundHost: (host) => held.around(host),
    })
    const ended = expect(starting).rejects.toThrow('SIGTERM')
    await until(() => held.isHolding)
    interrupt.abort('SIGTERM')
    await ended
    for (const closed of [port, adminPort]) await expect(ask(closed, 'GET', '/livez')).rejects.toMatchObject({ code: 'ECONNREFUSED' })
  })

  test('a bundle that comes holds for the first request', async (t) => {
    const held = holding(listener)
    const path = join(await scratchDirectory(), 'bundle.json')
    await replaceFile(path, JSON.stringify(bundle(1)))
    const starting = Edge.start({ env: { EDGE_CONFIG_FILE: path, EDGE_ADMIN_PORT: '0' }, aroundHost: (host) => held.around(host) })
    t.onTestFinished(async () => (await starting).stop())
    await until(() => held.isHolding)
    await replaceFile(path, JSON.stringify(bundle(2, policy('p', { rules: [bucketRule('r', [], 7, 1e-6)] }))))
    held.letGo()
    const edge = await starting
    await until(() => edge.service.bundle()?.version === '2')
    expect((await ask(edge.port, 'POST', '/v1/decision', original('/'))).headers['ratelimit-limit']).toBe('7')
    expect((await ask(edge.adminPort, 'GET', '/readyz')).body).toContain('"policy_version":"2"')
  })
})

test('where one listener cannot be bound, none stays bound, and the error says which it was', async () => {
  const port = await serverPort()
  const taken = createServer()
  onTestFinished(() => void taken.close())
  await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve))
  const env = { EDGE_PORT: String(port), EDGE_ADMIN_PORT: String((taken.address() as AddressInfo).port) }
  await expect(mortalEdge(1, { bundle: bundle(1), env })).rejects.toMatchObject({ code: 'EADDRINUSE', listener: 'admin' })
  const next = await mortalEdge(1, { bundle: bundle(1), env: { EDGE_PORT: String(port) } })
  expect((await next.edge.decide()).status).toBe(200)
})

function holding(listener: (typeof LISTENERS)[number]): HoldingHost {
  return new HoldingHost((message) => message.type === 'listen' && message.listener === listener)
}
