import { usePoll } from '../live.ts'
import { Badge } from '../parts/badge.tsx'
import { DataTable } from '../parts/data-table.tsx'

interface Policies {
  readonly policies: readonly { readonly id: string; readonly mode: string }[]
}

export function PoliciesView() {
  const { data } = usePoll<Policies>('policies')
  return (
    <DataTable
      caption="Policies"
      columns={[
        { title: 'Policy', isHeading: true, cell: ({ id }) => id, sortBy: ({ id }) => id },
        { title: 'Mode', cell: ({ mode }) => <Badge tone="quiet">{mode}</Badge> },
      ]}
      rows={data.value?.policies ?? []}
      rowKey={({ id }) => id}
      empty="The bundle has no policies."
    />
  )
}
