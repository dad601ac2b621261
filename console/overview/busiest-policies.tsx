import type { Activity, BusyPolicy } from '../../src/admin/api/instance-types.ts'
import { formatNumber, formatShareRejected } from '../format.ts'
import { addressOf } from '../navigation.ts'
import { Badge } from '../parts/badge.tsx'
import { type Column, DataTable } from '../parts/data-table.tsx'
import { Panel } from '../parts/panel.tsx'

const COLUMNS: readonly Column<BusyPolicy>[] = [
  {
    title: 'Policy',
    isHeading: true,
    cell: ({ policy }) => <a href={addressOf('policies', { policy })}>{policy}</a>,
    sortBy: ({ policy }) => policy,
  },
  { title: 'Mode', isMinor: true, cell: ({ mode }) => <Badge tone={mode === 'shadow' ? 'accent' : 'quiet'}>{mode}</Badge> },
  { title: 'Allowed', isNumber: true, cell: ({ allowed }) => formatNumber(allowed), sortBy: ({ allowed }) => allowed },
  { title: 'Rejected', isNumber: true, cell: Rejected, sortBy: ({ rejected }) => rejected },
  {
    title: 'Share rejected',
    isNumber: true,
    isMinor: true,
    cell: formatShareRejected,
    sortBy: ({ allowed, rejected }) => rejected / (allowed + rejected || 1),
  },
  { title: 'Would reject', isNumber: true, cell: ({ would_reject }) => formatNumber(would_reject), sortBy: (row) => row.would_reject },
]

/** Shows policies of the bundle, the busiest first, even if they decided nothing. */
export function BusiestPolicies({ activity: { policies, busiest } }: { readonly activity: Activity }) {
  const isPart = policies > busiest.length
  return (
    <Panel
      title={isPart ? 'Busiest policies' : 'Policies'}
      aside={
        <>
          last minute{isPart && `, ${busiest.length} of ${formatNumber(policies)}`} · <a href={addressOf('policies')}>all policies</a>
        </>
      }
      isWide
    >
      <DataTable
        caption="Policies, the busiest first, with what they did with the requests that they covered in the last minute"
        columns={COLUMNS}
        rows={busiest}
        rowKey={({ policy }) => policy}
        empty="There are no policies: no bundle is active, or it has none."
      />
    </Panel>
  )
}

function Rejected({ rejected }: BusyPolicy) {
  return <span class={rejected > 0 ? 'bad' : undefined}>{formatNumber(rejected)}</span>
}
