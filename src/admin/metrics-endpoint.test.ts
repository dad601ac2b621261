import type { ServerResponse } from 'node:http'
import { setImmediate as turn } from 'node:timers/promises'
import { gunzipSync } from 'node:zlib'
import { expect, test, vi } from 'vitest'
import { HeldNow } from '../../test/support/service/held-now.ts'
import { Exposition } from '../telemetry/metrics/exposition.ts'
import { CounterFamily, type Series } from '../telemetry/metrics/metric-families.ts'
import { MetricMemory, newMetricBuffer } from '../telemetry/metrics/metric-memory.ts'
import { MetricsEndpoint } from './metrics-endpoint.ts'

test('two thousand policies are gathered in many turns, and nothing is missing', async () => {
  const { endpoint } = exposing(2000)
  // Each reading of the time is a tenth of a millisecond later, however fast the machine.
  new HeldNow(0.1)
  const response = new Response()
  let [turns, isDone] = [0, false]
  const done = endpoint.handle(response.res).then(() => {
    isDone = true
  })
  while (!isDone) {
    await turn()
    turns++
  }
  await done
  expect(turns).toBeGreaterThan(3)
  expect(response.text.match(/^edge_decisions_total\{.*\} 1$/gm)).toHaveLength(2000)
})

test('all who ask before it begins get one text, those who ask meanwhile the next one', async () => {
  const { endpoint, steps } = exposing(1000)
  const early = Array.from({ length: 50 }, () => new Response())
  const late = Array.from({ length: 50 }, () => new Response())
  const gathering = early.map(({ res }) => endpoint.handle(res))
  while (steps.mock.calls.length === 0) await turn()
  await Promise.all([...gathering, ...late.map(({ res }) => endpoint.handle(res))])
  expect(steps).toHaveBeenCalledTimes(2)
  expect(new Set(early.map(({ body }) => body)).size).toBe(1)
  expect(new Set(late.map(({ body }) => body)).size).toBe(1)
})

test('those who accept gzip get the text compressed, once for all, and others get it as it is', async () => {
  const { endpoint } = exposing(100)
  const [plain, refusing, ...compressed] = [undefined, 'gzip;q=0', 'gzip', 'br, gzip;q=0.5'].map((acceptEncoding) => {
    const response = new Response()
    return { response, done: endpoint.handle(response.res, acceptEncoding) }
  })
  await Promise.all([plain!, refusing!, ...compressed].map(({ done }) => done))
  expect(new Set(compressed.map(({ response }) => response.body)).size).toBe(1)
  for (const { response } of compressed) {
    const { 'Content-Encoding': coding, 'Content-Length': length, Vary: vary } = response.fields
    expect([coding, length, vary]).toEqual(['gzip', String(response.body!.length), 'Accept-Encoding'])
    expect(String(gunzipSync(response.body!))).toBe(plain!.response.text)
    expect(response.body!.length * 4).toBeLessThan(plain!.response.body!.length)
  }
  for (const { response } of [plain!, refusing!]) {
    expect(response.fields).toMatchObject({ Vary: 'Accept-Encoding' })
    expect(response.fields).not.toHaveProperty('Content-Encoding')
    expect(response.text).toContain('edge_decisions_total{')
  }
})

test('no text is older than its request', async () => {
  const { endpoint, steps, series } = exposing(1)
  const [first, second] = [new Response(), new Response()]
  const gathering = endpoint.handle(first.res)
  while (steps.mock.calls.length === 0) await turn()
  series.count = 2
  await Promise.all([gathering, endpoint.handle(second.res)])
  expect(second.text).toContain('policy="p0",route="/0"} 2\n')
})

test('what a long one took is waited for before the next, ten times over', async () => {
  const time = new HeldNow()
  const { endpoint, steps } = exposing(1)
  // biome-ignore lint/correctness/useYield: it takes long, and in one step
  steps.mockImplementation(function* () {
    time.advance(50)
    return Buffer.from('text')
  })
  await endpoint.handle(new Response().res)
  const next = endpoint.handle(new Response().res)
  time.advance(290)
  for (let i = 0; i < 20; i++) await turn()
  expect(steps).toHaveBeenCalledTimes(1)
  time.advance(20)
  await next
  expect(steps).toHaveBeenCalledTimes(2)
})

test('one that fails fails for those who waited for it, and the next one is gathered', async () => {
  const { endpoint, steps } = exposing(1)
  steps.mockImplementationOnce(() => {
    throw new Error('broken')
  })
  const failed = await Promise.allSettled([1, 2].map(() => endpoint.handle(new Response().res)))
  expect(failed.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
  const response = new Response()
  await endpoint.handle(response.res)
  expect(response.text).toContain('edge_decisions_total{')
})

function exposing(policies: number) {
  const buffer = newMetricBuffer(2)
  const decisions = new CounterFamily(new MetricMemory(buffer, 0), 'edge_decisions_total')
  let series: Series | undefined
  for (let i = policies; i-- > 0; ) {
    series = decisions.series('allow', 'all_rules_passed', `p${i}`, `/${i}`)
    series.count = 1
  }
  const storeStats = () => ({ slots: 0, occupiedSlots: 0, forcedEvictions: 0 })
  // Those of another thread.
  const memory = new MetricMemory(buffer, 1)
  const none = () => []
  const exposition = new Exposition({
    memory,
    bundle: () => undefined,
    storeStats,
    connections: none,
    backends: none,
    isProxy: false,
    isFleet: false,
  })
  return { endpoint: new MetricsEndpoint(exposition), steps: vi.spyOn(exposition, 'steps'), series: series! }
}

class Response {
  body: Buffer | undefined
  fields: Record<string, string> = {}
  readonly res = {
    writeHead: (_status: number, list: readonly string[]) => {
      for (let i = 0; i < list.length; i += 2) this.fields[list[i]!] = list[i + 1]!
    },
    end: (body: Buffer) => {
      this.body = body
    },
  } as unknown as ServerResponse

  get text(): string {
    return String(this.body)
  }
}
