import type { BackendsJson, RouteChoiceJson, RouteJson } from '../../src/admin/api/backend-types.ts'
import { formatCount, formatNumber } from '../format.ts'
import { type Column, DataTable } from '../parts/data-table.tsx'
import { Panel } from '../parts/panel.tsx'
import { selectorWords } from '../policy-words.ts'
import { printable } from '../printable.ts'

/** Shows the routes in their order: which requests each covers, and where they go. */
export function RouteTable({ report: { routes, routes_in_all: inAll } }: { readonly report: BackendsJson }) {
  const isPart = inAll > routes.length
  return (
    <Panel
      title="Routes"
      aside={isPart ? `the first ${formatNumber(routes.length)} of ${formatNumber(inAll)}` : 'the first that covers a request decides'}
      isWide
    >
      <DataTable
        caption="Routes in their order, and the backends of each"
        columns={COLUMNS}
        rows={routes}
        rowKey={({ number }) => number}
        empty="The bundle has backends, but no routes."
        isStacked
      />
    </Panel>
  )
}

const COLUMNS: readonly Column<RouteJson>[] = [
  { title: 'Route', isHeading: true, cell: ({ number }) => <span class="mono">routes[{number}]</span> },
  { title: 'Covers', cell: coverageWords },
  { title: 'Backends', cell: (route) => <Shares route={route} /> },
  {
    title: 'Then, in this order',
    cell: ({ fallback }) => (fallback.length === 0 ? <span class="quiet">none</span> : <Choices choices={fallback} />),
  },
  { title: 'Tried again', cell: ({ attempts }) => (attempts === 0 ? 'never' : `up to ${formatCount(attempts, 'time')}`) },
]

function coverageWords({ selector, match }: RouteJson): string {
  const covered = selectorWords(selector)
  return printable(match.length === 0 ? covered : `${covered}, matched by ${match.join(' and ')}`)
}

function Shares({ route: { backends, stick_to: stickTo } }: { readonly route: RouteJson }) {
  const total = backends.reduce((sum, { weight }) => sum + (weight ?? 0), 0)
  return (
    <>
      <Choices choices={backends} note={backends.length > 1 ? ({ weight }) => `weight ${weight} of ${total}` : undefined} />
      {stickTo.length > 0 && <div class="quiet">the same one for the same {printable(stickTo.join(' and '))}</div>}
    </>
  )
}

interface ChoicesProps {
  readonly choices: readonly RouteChoiceJson[]
  readonly note?: ((choice: RouteChoiceJson) => string) | undefined
}

function Choices({ choices, note }: ChoicesProps) {
  return (
    <ol class="route-choices">
      {choices.map((choice) => (
        <li key={`${choice.name} ${choice.model}`}>
          {choice.name}
          {choice.model !== null && (
            <>
              {' '}
              as <code>{printable(choice.model)}</code>
            </>
          )}
          {note !== undefined && <span class="quiet">, {note(choice)}</span>}
        </li>
      ))}
    </ol>
  )
}
