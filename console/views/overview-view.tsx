import type { Activity, Status } from '../../src/admin/api/instance-types.ts'
import { useActivity } from '../activity.ts'
import { RangeCharts } from '../charts/range-charts.tsx'
import { addressOf } from '../navigation.ts'
import { BusiestPolicies } from '../overview/busiest-policies.tsx'
import { DecisionCharts } from '../overview/decision-charts.tsx'
import { HealthPanels } from '../overview/health-panels.tsx'
import { PresentFigures } from '../overview/present-figures.tsx'
import { Problems } from '../overview/problems.tsx'
import { RejectedNow } from '../overview/rejected-now.tsx'
import { MemoryChart, TimeCharts } from '../overview/time-charts.tsx'
import { Notice } from '../parts/notice.tsx'
import { Countdown } from '../parts/time.tsx'
import { printable } from '../printable.ts'
import { status } from '../status.ts'

/** Shows the state of the instance at a glance. */
export function OverviewView() {
  const { data, failure } = useActivity()
  const activity = data.value
  return (
    <>
      {failure.value !== undefined && <Notice tone="bad">There are no new figures: {failure.value.message}</Notice>}
      {status.value !== undefined && <Attention status={status.value} />}
      {activity !== undefined && <Live activity={activity} />}
      {status.value !== undefined && activity !== undefined && <HealthPanels status={status.value} activity={activity} />}
    </>
  )
}

function Attention({ status: { bundle, problems, shadow_all } }: { readonly status: Status }) {
  return (
    <>
      {shadow_all !== null && (
        <Notice tone="warn">
          <strong>Nothing is enforced</strong> for another <Countdown until={shadow_all.until} />: policies only record what they would
          reject. {shadow_all.actor}: {printable(shadow_all.reason)}. <a href={addressOf('overrides')}>Overrides</a>
        </Notice>
      )}
      {bundle === null && (
        <Notice tone="warn">No bundle is active: every request gets 503 until the first one is. The log says what is wrong with it.</Notice>
      )}
      {problems.length > 0 && <Problems problems={problems} />}
    </>
  )
}

function Live({ activity }: { readonly activity: Activity }) {
  return (
    <>
      <PresentFigures samples={activity.samples} />
      <RejectedNow />
      <RangeCharts live={activity}>
        {(timeline) => (
          <div class="panels charts">
            <DecisionCharts timeline={timeline} />
            <TimeCharts timeline={timeline} />
            <MemoryChart timeline={timeline} />
          </div>
        )}
      </RangeCharts>
      <BusiestPolicies activity={activity} />
    </>
  )
}
