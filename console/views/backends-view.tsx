import { useSignal } from '@preact/signals'
import type { BackendsJson, DefaultBackend } from '../../src/admin/api/backend-types.ts'
import { BackendTable } from '../backends/backend-table.tsx'
import { RetryDialog } from '../backends/retry-dialog.tsx'
import { RouteTable } from '../backends/route-table.tsx'
import { formatNumber } from '../format.ts'
import { usePoll } from '../live.ts'
import { EmptyState } from '../parts/empty-state.tsx'
import { Facts } from '../parts/facts.tsx'
import { useFocusAfter } from '../parts/focus-after.ts'
import { Notice } from '../parts/notice.tsx'
import { Panel } from '../parts/panel.tsx'
import { status } from '../status.ts'

/** Shows where requests are forwarded to, and which backends fail. */
export function BackendsView() {
  const poll = usePoll<BackendsJson>('backends')
  const [report, failure] = [poll.data.value, poll.failure.value]
  const retrying = useSignal<string | undefined>(undefined)
  const retried = useSignal<string | undefined>(undefined)
  useFocusAfter(retrying.value !== undefined)
  const problem = failure && <Notice tone="bad">There is nothing newer: {failure.message}</Notice>
  if (report === undefined) return problem ?? null
  const noteRetried = (name: string): void => {
    retried.value = name
    void poll.refresh()
  }
  return (
    <>
      {problem}
      <div role="status">
        {retried.value !== undefined && <Notice tone="good">The next request tries {retried.value}, at this instance.</Notice>}
      </div>
      {report.backends.length === 0 ? (
        <NoRoutes last={report.default} />
      ) : (
        <>
          <BackendTable
            report={report}
            onRetry={(name) => {
              retried.value = undefined
              retrying.value = name
            }}
          />
          <RouteTable report={report} />
          <LastResort last={report.default} />
        </>
      )}
      {retrying.value !== undefined && (
        <RetryDialog
          name={retrying.value}
          onRetried={({ name }) => noteRetried(name)}
          onClose={() => {
            retrying.value = undefined
          }}
        />
      )}
    </>
  )
}

/** Without routes there is one backend, or none. */
function NoRoutes({ last }: { readonly last: DefaultBackend | null }) {
  if (status.value?.mode === 'decision_service')
    return (
      <EmptyState>This is a decision service: it forwards nothing, so it has no backends. The gateways in front of it have.</EmptyState>
    )
  return (
    <>
      {last !== null && <DefaultPanel last={last} title="The one backend" />}
      <EmptyState>
        The active bundle has no routes{last === null ? '' : ', so EDGE_BACKEND_URL is the one backend: all requests go to it'}. With{' '}
        <code>backends</code> and <code>routes</code> in the bundle, requests go to several: by model or path, by weight, and to another one
        when one fails. They appear here.
      </EmptyState>
    </>
  )
}

/** What becomes of requests that no route covers. */
function LastResort({ last }: { readonly last: DefaultBackend | null }) {
  if (last !== null) return <DefaultPanel last={last} title="Requests that no route covers" />
  return <Notice tone="accent">A request that no route covers gets 404: EDGE_BACKEND_URL is not set.</Notice>
}

function DefaultPanel({ last, title }: { readonly last: DefaultBackend; readonly title: string }) {
  const { url, connections, max_connections: max, queue } = last
  return (
    <Panel title={title} aside="EDGE_BACKEND_URL" isWide>
      <Facts
        facts={[
          [
            'URL',
            <span key="url" class="mono wrapped">
              {url}
            </span>,
          ],
          ['Connections', `${formatNumber(connections)} of ${formatNumber(max)}`],
          ['Waiting', formatNumber(queue)],
          ['State', 'It never cools: these requests have nowhere else to go.'],
        ]}
      />
    </Panel>
  )
}
