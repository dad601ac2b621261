import { useSignal } from '@preact/signals'
import type { ActivitySample, PolicySample } from '../../src/admin/api/instance-types.ts'
import { Chart } from '../charts/chart.tsx'
import { formatCompact } from '../format.ts'
import { Panel } from '../parts/panel.tsx'
import { ratesByName, ratesOf, type Timeline } from '../timeline.ts'

const SHOWN_NAMES = 6
const REST = 'all others'

interface Breakdown {
  readonly title: string
  readonly label: string
  readonly unit: string
  readonly countsOf: (sample: ActivitySample) => ReadonlyMap<string, number>
  readonly totalOf: (sample: ActivitySample) => number
  /** Shown if there is nothing; `words` name the range. */
  readonly empty: (words: string) => string
}

const BREAKDOWNS: readonly Breakdown[] = [
  {
    title: 'Rejects by policy',
    label: 'Rejects per second by policy',
    unit: 'rejects per second',
    countsOf: byPolicy(({ rejected }) => rejected),
    totalOf: ({ rejected }) => rejected,
    empty: nothingRejected,
  },
  {
    title: 'Rejects by reason',
    label: 'Rejects per second by reason',
    unit: 'rejects per second',
    countsOf: ({ reasons }) => new Map(Object.entries(reasons.rejected)),
    totalOf: ({ rejected }) => rejected,
    empty: nothingRejected,
  },
  {
    title: 'Requests by policy',
    label: 'Requests per second by policy',
    unit: 'requests per second',
    countsOf: byPolicy(({ allowed, rejected }) => allowed + rejected),
    totalOf: ({ allowed, rejected }) => allowed + rejected,
    empty: (words) => `Nothing was decided in ${words}.`,
  },
  {
    title: 'Would-rejects by policy',
    label: 'Would-rejects per second by policy',
    unit: 'would-rejects per second',
    countsOf: byPolicy(({ would_reject }) => would_reject),
    totalOf: ({ would_reject }) => would_reject,
    empty: (words) => `No policy in shadow mode would have rejected anything in ${words}.`,
  },
  {
    title: 'Refusals by reason',
    label: 'Refusals per second by reason',
    unit: 'refusals per second',
    countsOf: ({ reasons }) => new Map(Object.entries(reasons.refused)),
    totalOf: ({ refused }) => refused,
    empty: (words) => `Every question of ${words} was decided.`,
  },
]

/** Shows decisions by their outcome, and breakdowns of them. */
export function DecisionCharts({ timeline }: { readonly timeline: Timeline }) {
  return (
    <>
      <Actions timeline={timeline} />
      <Breakdowns timeline={timeline} />
    </>
  )
}

function Actions({ timeline }: { readonly timeline: Timeline }) {
  return (
    <Panel title="Decisions" aside="per second">
      <Chart
        label="Decisions per second"
        unit="decisions per second"
        timeline={timeline}
        format={formatCompact}
        empty="There is no sample of this range yet."
        series={[
          { name: 'allowed', ink: 'accent', values: ratesOf(timeline, ({ allowed }) => allowed) },
          { name: 'rejected', ink: 'bad', values: ratesOf(timeline, ({ rejected }) => rejected) },
          { name: 'would reject', ink: 'warn', values: ratesOf(timeline, ({ would_reject }) => would_reject) },
          { name: 'refused', ink: 'quiet', values: ratesOf(timeline, ({ refused }) => refused) },
        ]}
      />
    </Panel>
  )
}

function Breakdowns({ timeline }: { readonly timeline: Timeline }) {
  const chosen = useSignal(BREAKDOWNS[0]!)
  const { title, label, unit, countsOf, totalOf, empty } = chosen.value
  const rates = ratesByName(timeline, countsOf, totalOf, SHOWN_NAMES)
  const choose = (event: Event): void => {
    const { value } = event.currentTarget as HTMLSelectElement
    chosen.value = BREAKDOWNS.find((one) => one.title === value)!
  }
  return (
    <Panel
      title="Breakdown"
      aside={
        <>
          <select aria-label="What the chart shows" value={title} onChange={choose}>
            {BREAKDOWNS.map((one) => (
              <option key={one.title}>{one.title}</option>
            ))}
          </select>{' '}
          per second
        </>
      }
    >
      <Chart
        label={label}
        unit={unit}
        timeline={timeline}
        format={formatCompact}
        empty={empty(timeline.words)}
        series={rates.map((rate) => (rate.name === REST ? { ...rate, ink: 'quiet' } : rate))}
      />
    </Panel>
  )
}

function nothingRejected(words: string): string {
  return `Nothing was rejected in ${words}.`
}

function byPolicy(count: (policy: PolicySample) => number): Breakdown['countsOf'] {
  return ({ policies }) => new Map(policies.map((policy) => [policy.policy, count(policy)]))
}
