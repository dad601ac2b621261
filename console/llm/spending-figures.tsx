import type { ActivitySample, SpendingRule } from '../../src/admin/api/instance-types.ts'
import { bareSpent, unitName } from '../amounts.ts'
import { formatCompact, formatNumber } from '../format.ts'
import { Figure, Figures } from '../parts/figure.tsx'
import { Panel } from '../parts/panel.tsx'
import { presentRate } from '../timeline.ts'
import { fullName } from './rule-names.ts'

interface SpendingFiguresProps {
  readonly rules: readonly SpendingRule[]
  readonly samples: readonly ActivitySample[]
}

/** Shows current spending. If several rules cover a request, each of them counts it, so the figures are those of one rule: the one that counts most. */
export function SpendingFigures({ rules, samples }: SpendingFiguresProps) {
  return (
    <Panel title="Now" aside="of the rule that counts most" isWide>
      <Figures>
        <UnitFigures rules={rules} samples={samples} unit="tokens" label="Tokens" per="second" seconds={1} />
        <UnitFigures rules={rules} samples={samples} unit="money" label="Money" per="minute" seconds={60} />
        <Figure label="Streams" value={formatCompact(samples.at(-1)?.backend?.streams ?? 0)} note={streamsNote(rules)} />
      </Figures>
    </Panel>
  )
}

/** A stream may grow under several rules, so those of one rule are named: the one with the most. */
function streamsNote(rules: readonly SpendingRule[]): string {
  const growing = Math.max(0, ...rules.map(({ in_flight }) => in_flight?.growing.requests ?? 0))
  return growing === 0 ? 'open now' : `open now, ${formatNumber(growing)} with a growing reservation`
}

interface UnitFiguresProps extends SpendingFiguresProps {
  readonly unit: SpendingRule['unit']
  readonly label: string
  readonly per: string
  readonly seconds: number
}

function UnitFigures({ rules, samples, unit, label, per, seconds }: UnitFiguresProps) {
  const most = rules.find((rule) => rule.unit === unit)
  if (most === undefined) return null
  const rate = presentRate(samples, ({ spending }) => spending.rules.find((rule) => fullName(rule) === fullName(most))?.[unit] ?? 0) ?? 0
  return (
    <>
      <Figure label={label} value={bareSpent(rate * seconds, unit)} unit={`${unitName(unit)} per ${per}`} note={fullName(most)} />
      <Figure
        label={`${label}, last 15 minutes`}
        value={bareSpent(most.used?.last_15_minutes ?? 0, unit)}
        unit={unitName(unit)}
        note={fullName(most)}
      />
    </>
  )
}
