import { array as arrayOf, assert, constantFrom, dictionary, double, property, record, string } from 'fast-check'
import { type Metric, Registry } from 'prom-client'
import { expect, test } from 'vitest'
import { runs } from '../../../test/support/run/property-runs.ts'
import { expositionText, type MetricText } from './exposition.ts'

const name = constantFrom('edge_a_total', 'edge_b', 'edge_c_seconds', 'edge_c_seconds_bucket')
const value = record({ labels: dictionary(constantFrom('action', 'reason', 'le'), string()), value: double({ noNaN: true }) })
const metric = record({ name, help: string(), type: constantFrom('counter', 'gauge', 'histogram'), values: arrayOf(value) })

test('whatever the labels and numbers, the text is the one that prom-client writes', async () => {
  const metrics = arrayOf(metric, { minLength: 1 })
  const written: [string, readonly MetricText[]][] = []
  assert(
    property(metrics, (all) => {
      const distinct = [...new Map(all.map((one) => [one.name, one])).values()]
      written.push([textOf(distinct), distinct])
    }),
    { numRuns: runs(20) },
  )
  for (const [text, all] of written) expect(text).toBe(await byPromClient(all))
})

test('numbers that are none are spelled as Prometheus reads them', () => {
  const values = [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY].map((value) => ({ labels: {}, value }))
  expect(textOf([{ name: 'a', help: 'b', type: 'gauge', values }])).toBe('# HELP a b\n# TYPE a gauge\na NaN\na +Inf\na -Inf\n')
})

function textOf(metrics: readonly MetricText[]): string {
  return [...expositionText(metrics)].join('')
}

async function byPromClient(metrics: readonly MetricText[]): Promise<string> {
  const registry = new Registry()
  for (const one of metrics) registry.registerMetric({ name: one.name, get: async () => one } as unknown as Metric)
  return registry.metrics()
}
