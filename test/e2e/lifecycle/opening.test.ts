import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import type { WorkerHost } from '../../../src/runtime/threads/worker-host.ts'
import { replaceFile } from '../../support/bundles/bundle-file.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { Edge } from '../../support/service/edge.ts'
import { HoldingHost } from '../../support/service/holding-host.ts'
import { ask } from '../../support/service/http.ts'
import { portOf } from '../../support/service/port-of.ts'
import { running, scratchDirectory } from '../../support/service/running.ts'
import { serverPort } from '../../support/service/server-port.ts'
import { original } from '../../support/service/wire.ts'
import { until } from '../../support/until.ts'

const LISTENERS = ['admin', 'main'] as const

describe.each(LISTENERS)('while the %s listener is being opened', (listener) => {
  test('a signal ends the start, and no listener is left open', async () => {
    const held = holding(listener)
    const [port, adminPort] = [await serverPort(), await serverPort()]
    const interrupt = new AbortController()
    const closed: number[] = []
    const starting = Edge.start({
      bundle: bundle(1),
      env: { EDGE_PORT: String(port), EDGE_ADMIN_PORT: String(adminPort) },
      interrupt: interrupt.signal,
      aroundHost: (host) => notingCloses(held.around(host), closed),
    })
    const ended = expect(starting).rejects.toThrow('SIGTERM')
    await until(() => held.isHolding)
    interrupt.abort('SIGTERM')
    await ended
    expect(closed).toEqual([port, adminPort])
    for (const free of [port, adminPort]) await expect(ask(free, 'GET', '/livez')).rejects.toMatchObject({ code: 'ECONNREFUSED' })
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
  const [port, adminPort] = [await serverPort(), await serverPort()]
  const closed: number[] = []
  const starting = Edge.start({
    bundle: bundle(1),
    env: { EDGE_PORT: String(port), EDGE_ADMIN_PORT: String(adminPort) },
    aroundHost: (host) => notingCloses(host, closed, adminPort),
  })
  await expect(starting).rejects.toMatchObject({ code: 'EADDRINUSE', listener: 'admin' })
  expect(closed).toEqual([port])
})

test('a start whose workers die closes its ports and lets go of its state file, so that the next one can have both', async () => {
  const [port, adminPort] = [await serverPort(), await serverPort()]
  const env = { EDGE_PORT: String(port), EDGE_ADMIN_PORT: String(adminPort), EDGE_STATE_FILE: join(await scratchDirectory(), 'state') }
  const closed: number[] = []
  const starting = Edge.start({ bundle: bundle(1), env, aroundHost: (host) => notingCloses(stillborn(host), closed) })
  await expect(starting).rejects.toThrow('stillborn')
  expect(closed).toEqual([port, adminPort])
  const edge = await running({ bundle: bundle(1), env })
  expect(edge.port).toBe(port)
})

/** Its workers end before they are up. */
function stillborn(host: WorkerHost): WorkerHost {
  return {
    bind: (...args) => host.bind(...args),
    startWorker(_worker, _memory, listener) {
      setImmediate(() => listener.onExit(new Error('stillborn')))
      return { send() {}, terminate() {} }
    },
  }
}

/** Notes which ports were closed that had been bound; one is taken. */
function notingCloses(host: WorkerHost, closed: number[], taken?: number): WorkerHost {
  return {
    async bind(address, workers) {
      if (portOf(address) === taken) throw Object.assign(new Error('taken'), { code: 'EADDRINUSE' })
      const socket = await host.bind(address, workers)
      const close = (): void => {
        closed.push(portOf(address))
        socket.close()
      }
      return {
        share: () => socket.share(),
        giveBack: (share) => socket.giveBack(share),
        noteListening: () => socket.noteListening(),
        close,
      }
    },
    startWorker: (...args) => host.startWorker(...args),
  }
}

function holding(listener: (typeof LISTENERS)[number]): HoldingHost {
  return new HoldingHost((message) => message.type === 'listen' && message.listener === listener)
}
