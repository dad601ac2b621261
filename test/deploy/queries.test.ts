import { describe, expect, test } from 'vitest'
import { REASONS } from '../../src/engine/reasons.ts'
import { CATALOGUE, type MetricSpec } from '../../src/telemetry/metrics/catalogue.ts'
import { codeBlocks, readText } from '../docs/markdown.ts'
import { dashboard, dashboardQueries, deployedRules } from '../support/prometheus/deployed.ts'
import { readQuery } from '../support/prometheus/promql.ts'

/** What Prometheus adds to everything that it scrapes. */
const TARGET_LABELS = ['job', 'instance']
/** Metrics of Prometheus itself. */
const OWN: ReadonlyMap<string, readonly string[]> = new Map([
  ['up', []],
  ['ALERTS', ['alertname', 'alertstate', 'severity']],
])

const RULES = deployedRules()
const RECORDED = new Map(RULES.flatMap(({ record, expr }) => (record === undefined ? [] : [[record, keptLabels(expr)] as const])))
const METRIC_ROWS = new Map(
  readText('docs/metrics.md')
    .split('\n')
    .flatMap((line) => {
      const name = /^\| `(\w+)` \|/.exec(line)?.[1]
      return name === undefined ? [] : [[name, line] as const]
    }),
)

const QUERIES = [
  ...RULES.map(({ record, alert, expr }) => [record ?? alert!, expr] as const),
  ...dashboardQueries().map(({ title, expr }) => [`dashboard: ${title}`, expr] as const),
  ...codeBlocks(readText('docs/metrics.md'), 'promql').map((expr, i) => [`docs/metrics.md: query ${i + 1}`, expr] as const),
]

describe('every query names metrics and labels that exist', () => {
  test.each(QUERIES)('%s', (_name, expr) => {
    const { selectors, groupings } = readQuery(expr)
    expect(selectors.length).toBeGreaterThan(0)
    for (const { metric, matchers } of selectors) {
      const labels = labelsOf(metric)
      for (const { label, operator, value } of matchers) {
        expect(labels, `${metric} has no label ${label}`).toContain(label)
        if (operator === '=' || operator === '!=') expectValue(metric, label, value)
      }
    }
    for (const { labels, metrics } of groupings)
      for (const metric of metrics) for (const label of labels) expect(labelsOf(metric), `${metric} has no label ${label}`).toContain(label)
  })
})

test('the variables of the dashboard ask for metrics and labels that exist', () => {
  const asked = dashboard().templating.list.flatMap(({ definition }) => definition ?? [])
  expect(asked).toHaveLength(3)
  for (const definition of asked) {
    const [, selector, label] = /^label_values\((.*), (\w+)\)$/.exec(definition)!
    const { metric, matchers } = readQuery(selector!).selectors[0]!
    for (const name of [label!, ...matchers.map((matcher) => matcher.label)]) expect(labelsOf(metric)).toContain(name)
  }
})

function labelsOf(metric: string): readonly string[] {
  const own = OWN.get(metric) ?? RECORDED.get(metric) ?? catalogueLabels(metric)
  if (own === undefined) throw new Error(`there is no metric ${metric}`)
  return [...own, ...TARGET_LABELS]
}

function catalogueLabels(metric: string): readonly string[] | undefined {
  const catalogue: Readonly<Record<string, MetricSpec>> = CATALOGUE
  const base = metric.replace(/_(bucket|sum|count)$/, '')
  if (catalogue[base]?.type === 'histogram') return base === metric ? undefined : [...catalogue[base].labels, 'le']
  return catalogue[metric]?.labels
}

/** Those of the outermost aggregation. A quantile has no `le`. */
function keptLabels(expr: string): readonly string[] {
  return readQuery(expr).groupings[0]!.labels.filter((label) => label !== 'le')
}

/** Values are those that the documentation lists, which is compared with the source. */
function expectValue(metric: string, label: string, value: string): void {
  if (TARGET_LABELS.includes(label) || OWN.has(metric)) return
  if (label === 'reason') return expect(Object.keys(REASONS)).toContain(value)
  expect(METRIC_ROWS.get(metric), `${metric} has no ${label}="${value}"`).toContain(`\`${value}\``)
}
