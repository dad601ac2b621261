import type { BackendFailureReason, BackendJson, BackendsJson, CoolingModel, RouteJson } from '../../src/admin/api/backend-types.ts'
import { formatCount, formatNumber } from '../format.ts'
import { Badge } from '../parts/badge.tsx'
import { type Column, DataTable } from '../parts/data-table.tsx'
import { useFocusKept } from '../parts/focus-after.ts'
import { Panel } from '../parts/panel.tsx'
import { Ago, Moment } from '../parts/time.tsx'
import { printable } from '../printable.ts'
import { isReadOnly } from '../session.ts'

interface BackendTableProps {
  readonly report: BackendsJson
  readonly onRetry: (name: string) => void
}

/** Shows the backends of the bundle: their states in words, their connections, and which routes lead to them. */
export function BackendTable({ report: { backends, routes }, onRetry }: BackendTableProps) {
  return (
    <Panel title="Backends" aside={<Summary backends={backends} />} isWide>
      <DataTable
        caption="Backends of the bundle, and their states"
        columns={columnsOf(routes, onRetry)}
        rows={backends}
        rowKey={({ name }) => name}
        empty=""
        isStacked
      />
    </Panel>
  )
}

/** Backends that answer may still refuse models, such as for a revoked key. */
function Summary({ backends }: { readonly backends: BackendsJson['backends'] }) {
  const failing = backends.filter(({ state }) => state !== 'healthy').length
  if (failing > 0) return <Badge tone="bad">{formatNumber(failing)} failing</Badge>
  const refused = backends.reduce((sum, { cooling_models: models }) => sum + models.length, 0)
  if (refused > 0) return <Badge tone="warn">{formatCount(refused, 'model')} refused</Badge>
  return <Badge tone="good">all healthy</Badge>
}

function columnsOf(routes: readonly RouteJson[], onRetry: BackendTableProps['onRetry']): Column<BackendJson>[] {
  return [
    {
      title: 'Backend',
      isHeading: true,
      cell: ({ name, url, has_credential }) => (
        <>
          {name} <div class="quiet mono wrapped backend-url">{url}</div>
          {has_credential && <div class="quiet">with a credential of its own</div>}
        </>
      ),
      sortBy: ({ name }) => name,
    },
    { title: 'State', cell: (backend) => <BackendState backend={backend} /> },
    {
      title: 'Connections',
      isNumber: true,
      cell: ({ connections, max_connections }) => `${formatNumber(connections)} of ${formatNumber(max_connections)}`,
      sortBy: ({ connections }) => connections,
    },
    { title: 'Waiting', isNumber: true, cell: ({ queue }) => formatNumber(queue), sortBy: ({ queue }) => queue },
    { title: 'Routes', cell: (backend) => <BackendRoutes backend={backend} routes={routes} /> },
    { title: 'Last failure', cell: ({ last_failure }) => <LastFailure failure={last_failure} /> },
    { title: 'Action', cell: (backend) => <RetryAction backend={backend} onRetry={onRetry} /> },
  ]
}

/** How calls failed, in words. */
const FAILURES: Readonly<Record<BackendFailureReason, string>> = {
  connect: 'no connection',
  timeout: 'no response in time',
  '5xx': 'status 500 or above, or broken connection',
  429: 'status 429',
  401: 'status 401: credential refused',
  402: 'status 402: credential refused',
  403: 'status 403: credential refused',
}

function failureWords(reason: BackendFailureReason): string {
  // A later version may know more reasons.
  return FAILURES[reason] ?? printable(reason)
}

function BackendState({ backend }: { readonly backend: BackendJson }) {
  const { state, reason, since, cooling_until: until, failures_in_a_row: failures, cooling_models: models } = backend
  return (
    <>
      {state === 'healthy' && <Badge tone="good">healthy</Badge>}
      {state === 'cooling' && (
        <>
          <Badge tone="bad">cooling</Badge> until <Moment at={until!} />
        </>
      )}
      {state === 'probing' && <Badge tone="warn">one request at a time tries it</Badge>}
      {failures > 0 && (
        <div>
          {formatCount(failures, 'failure')} in a row
          {reason !== null && `: ${failureWords(reason)}`}
        </div>
      )}
      {since !== null && (
        <div class="quiet">
          failing since <Moment at={since} />
        </div>
      )}
      {models.length > 0 && (
        <ul class="cooling-models" aria-label="Models that it refuses">
          {models.map((model) => (
            <li key={model.model}>
              <Model model={model} />
            </li>
          ))}
        </ul>
      )}
    </>
  )
}

function Model({ model: { model, state, reason, until } }: { readonly model: CoolingModel }) {
  return (
    <>
      {model === null ? 'requests whose model is not known' : <code>{printable(model)}</code>}{' '}
      {until === null || state !== 'cooling' ? (
        'is tried by one request at a time'
      ) : (
        <>
          cools until <Moment at={until} />
        </>
      )}
      <span class="quiet">, {failureWords(reason)}</span>
    </>
  )
}

/** Enough to find them in the table of routes. */
const SHOWN_ROUTES = 8

function BackendRoutes({
  backend: { name, routes: numbers },
  routes,
}: {
  readonly backend: BackendJson
  readonly routes: readonly RouteJson[]
}) {
  if (numbers.length === 0) return <span class="quiet">none: it gets no requests</span>
  return (
    <ul class="backend-routes">
      {numbers.slice(0, SHOWN_ROUTES).map((number) => (
        <li key={number}>
          <span class="mono">routes[{number}]</span> {placeWords(name, routes[number])}
        </li>
      ))}
      {numbers.length > SHOWN_ROUTES && <li>and {formatNumber(numbers.length - SHOWN_ROUTES)} more</li>}
    </ul>
  )
}

/** Says what a backend is for a route; nothing for a route that the response leaves out. */
function placeWords(name: string, route: RouteJson | undefined): string {
  if (route === undefined) return ''
  const total = route.backends.reduce((sum, { weight }) => sum + (weight ?? 0), 0)
  const weights = route.backends.filter((choice) => choice.name === name).map(({ weight }) => weight ?? 0)
  const places = route.fallback.flatMap((choice, i) => (choice.name === name ? [`fallback ${i + 1}`] : []))
  const share = weights.length === 0 ? [] : [`weight ${weights.reduce((sum, weight) => sum + weight, 0)} of ${total}`]
  return [...share, ...places].join(', ')
}

function LastFailure({ failure }: { readonly failure: BackendJson['last_failure'] }) {
  if (failure === null) return <span class="quiet">none</span>
  return (
    <>
      {failureWords(failure.reason)}
      <div class="quiet">
        <Ago at={failure.at} />
      </div>
    </>
  )
}

function RetryAction({ backend: { name, state, cooling_models: models }, onRetry }: RetryActionProps) {
  if (isReadOnly.value || (state === 'healthy' && models.length === 0)) return <span class="quiet">none</span>
  return <RetryButton name={name} onRetry={onRetry} />
}

/** It goes as soon as the backend is healthy, even under the cursor. */
function RetryButton({ name, onRetry }: { readonly name: string; readonly onRetry: BackendTableProps['onRetry'] }) {
  const button = useFocusKept<HTMLButtonElement>()
  return (
    <button type="button" ref={button} onClick={() => onRetry(name)}>
      Try now<span class="unseen">: {name}</span>
    </button>
  )
}

interface RetryActionProps {
  readonly backend: BackendJson
  readonly onRetry: BackendTableProps['onRetry']
}
