import { describe, expect, test } from 'vitest'
import { bundle } from '../../support/bundles/bundles.ts'
import { HoldingHost } from '../../support/service/holding-host.ts'
import { metricsOf } from '../../support/service/metrics.ts'
import { until } from '../../support/until.ts'
import { mortalEdge } from '../../support/workers/mortal-edge.ts'
import type { MortalHost } from '../../support/workers/mortal-host.ts'

describe.each(['admin', 'main'] as const)('while the %s listener is being opened', (listener) => {
  test('a worker that dies is replaced, and the start goes on', async () => {
    const held = new HoldingHost((message) => message.type === 'listen' && message.listener === listener)
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
})
