import type { SpendingRule } from '../../src/admin/api/instance-types.ts'
import { bareSpent, unitName } from '../amounts.ts'
import { Chart } from '../charts/chart.tsx'
import { Panel } from '../parts/panel.tsx'
import { ratesByName, type Timeline } from '../timeline.ts'
import { fullName } from './rule-names.ts'

const SHOWN_RULES = 6

interface SpendingChartsProps {
  readonly rules: readonly SpendingRule[]
  readonly timeline: Timeline
}

/** Shows tokens and money over time, by rule. There is a chart of money for each price table, because each may have its own currency. */
export function SpendingCharts({ rules, timeline }: SpendingChartsProps) {
  const tables = new Set(rules.filter(({ unit }) => unit === 'money').map(priceTable))
  return (
    <div class="panels charts">
      {rules.some(({ unit }) => unit === 'tokens') && (
        <Panel title="Tokens" aside="per second, by rule">
          <SpendingChart label="Tokens per second by rule" unit="tokens" timeline={timeline} isShown={() => true} />
        </Panel>
      )}
      {Array.from(tables, (table) => {
        const names = new Set(rules.filter((rule) => priceTable(rule) === table).map(fullName))
        return (
          <Panel key={table} title="Money" aside={`per minute, by rule${table === '' ? '' : `, prices ${table}`}`}>
            <SpendingChart
              label={`Money per minute by rule, prices ${table}`}
              unit="money"
              timeline={timeline}
              isShown={(name) => names.has(name)}
            />
          </Panel>
        )
      })}
    </div>
  )
}

interface SpendingChartProps {
  readonly label: string
  readonly unit: SpendingRule['unit']
  readonly timeline: Timeline
  readonly isShown: (name: string) => boolean
}

function SpendingChart({ label, unit, timeline, isShown }: SpendingChartProps) {
  // Amounts of money per second would be too small to read.
  const scale = unit === 'money' ? 60 : 1
  const rates = ratesByName(
    timeline,
    ({ spending }) =>
      new Map(spending.rules.map((rule) => [fullName(rule), rule[unit] * scale] as const).filter(([name]) => isShown(name))),
    ({ spending }) => (unit === 'money' ? 0 : spending.tokens),
    SHOWN_RULES,
  )
  return (
    <Chart
      label={label}
      timeline={timeline}
      series={rates}
      format={(value) => bareSpent(value, unit)}
      unit={`${unitName(unit)} per ${unit === 'money' ? 'minute' : 'second'}`}
      empty={`No ${unit} ${unit === 'money' ? 'was' : 'were'} spent in ${timeline.words}.`}
    />
  )
}

function priceTable({ algorithm_config }: SpendingRule): string {
  return String(algorithm_config['prices'] ?? '')
}
