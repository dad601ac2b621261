import { describe, expect, onTestFinished, test } from 'vitest'
import { Exchange } from '../../../src/proxy/exchange.ts'
import { Reservations } from '../../../src/reservations/reservations.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { breakOnce } from '../../support/proxy/mistakes.ts'
import { proxying } from '../../support/proxy/proxy.ts'
import { askThrough, HTTP_DOORS } from '../../support/service/doors.ts'
import { metricsOf } from '../../support/service/metrics.ts'
import { CALLER, LIMITS, questions } from '../../support/service/question-counts.ts'
import { running } from '../../support/service/running.ts'
import { startServer } from '../../support/service/two-wires.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { ASKED, budgetBundle, errorOf, reserve, reserved, settle } from '../../support/settle/settling.ts'
import { MapStore } from '../../support/store/map-store.ts'

describe.each(HTTP_DOORS.map((door) => [door.name, door] as const))('questions through %s are counted once each', (name, door) => {
  test('as refused without a bundle', async () => {
    const edge = await running()
    await askThrough(door, edge.port)
    expect(await questions(edge.port)).toEqual({ [name]: [0, 0, 1] })
  })

  test('as refused when the service fails', async () => {
    const failing = { takeAll: () => Promise.reject(new Error('the store is gone')) }
    for (const hasFastWire of [true, false]) {
      const server = await startServer(LIMITS, { hasFastWire, store: Object.assign(new MapStore(), failing) })
      onTestFinished(() => server.close())
      expect((await askThrough(door, server.port, { fields: CALLER })).status).toBe(500)
      expect(await questions(server.port)).toEqual({ [name]: [0, 0, 1] })
    }
  })

  test('as allowed when what it took cannot be numbered: the answer is 500', async () => {
    const edge = await running({ bundle: budgetBundle(1000) })
    breakOnce(Reservations.prototype, 'issue')
    expect((await askThrough(door, edge.port, { fields: [['X-Key', 'a'], ...ASKED] })).status).toBe(500)
    expect(await questions(edge.port)).toEqual({ [name]: [1, 0, 0] })
  })
})

describe('no question is', () => {
  test('a settlement, even one that fails', async () => {
    const edge = await running({ bundle: budgetBundle(1000) })
    const token = await reserved(edge)
    breakOnce(Reservations.prototype, 'settle')
    expect(errorOf(await settle(edge.port, token))).toMatchObject({ status: 500, code: 'internal_error' })
    expect((await settle(edge.port, token)).status).toBe(204)
    const metrics = await metricsOf(edge.port)
    expect(metrics.value('edge_settlements_total{outcome="internal_error"}')).toBe(1)
    expect(metrics.sum('edge_refused_requests_total')).toBe(0)
    expect(await untilLogged(edge, 'internal_error')).toHaveLength(1)
    expect(await questions(edge.port)).toEqual({ decision: [1, 0, 0] })
    expect((await reserve(edge)).status).toBe(200)
  })
})

describe('requests through the proxy are counted once each', () => {
  test('as allowed, when the backend fails or our own code does afterwards', async () => {
    const backend = await HttpBackend.start((_req, res) => void res.destroy())
    const edge = await proxying(backend, { bundle: bundle(1, policy('p', { rules: [bucketRule('r', [], 100)] })) })
    expect((await edge.get('/')).status).toBe(502)
    breakOnce(Exchange.prototype, 'onHead')
    backend.handler = (_req, res) => void res.end('hello')
    expect((await edge.get('/')).status).toBe(500)
    expect(await questions(edge.port)).toEqual({ proxy: [2, 0, 0] })
  })
})
