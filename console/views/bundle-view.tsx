import type { BundleJson, BundleReportJson, BundleSourceJson } from '../../src/admin/api/instance-types.ts'
import { Changes } from '../bundle/changes.tsx'
import { formatCount, formatNumber } from '../format.ts'
import { usePoll } from '../live.ts'
import { EmptyState } from '../parts/empty-state.tsx'
import { Facts } from '../parts/facts.tsx'
import { Notice } from '../parts/notice.tsx'
import { Panel } from '../parts/panel.tsx'
import { Ago } from '../parts/time.tsx'
import { status } from '../status.ts'

/**
 * The bundle seldom changes and its report may be long, so it is polled rarely. It is also requested at once if the status shows another bundle or
 * problem.
 */
const EVERY_MS = 10_000

export function BundleView() {
  const { bundle: active, problems = [] } = status.value ?? {}
  const ofBundle = problems.filter(({ code }) => code.startsWith('bundle_')).map(({ code, since }) => `${code} ${since}`)
  return <Report key={[active?.hash, ...ofBundle].join(' ')} />
}

function Report() {
  const { data, failure } = usePoll<BundleReportJson>('bundle', EVERY_MS)
  if (data.value === undefined)
    return failure.value === undefined ? <EmptyState>Loading.</EmptyState> : <Notice tone="bad">{failure.value.message}</Notice>
  const { bundle, source, previous, changes } = data.value
  return (
    <>
      {source === null ? (
        <Notice tone="warn">No bundle is loaded: set EDGE_CONFIG_FILE or EDGE_CONFIG_URL.</Notice>
      ) : (
        <SourceProblem source={source} active={bundle} />
      )}
      <div class="panels">
        <Panel title="Active bundle">
          {bundle === null ? (
            <EmptyState>None yet. Until there is one, every request gets 503.</EmptyState>
          ) : (
            <Applied bundle={bundle} source={source} />
          )}
        </Panel>
        <Panel title="Before it">
          {previous === null ? <EmptyState>None since edge was started.</EmptyState> : <Applied bundle={previous} source={null} />}
        </Panel>
      </div>
      {changes !== null && <Changes changes={changes} />}
    </>
  )
}

interface AppliedProps {
  readonly bundle: BundleJson
  readonly source: BundleSourceJson | null
}

function Applied({ bundle: { version, hash, applied_at, policies }, source }: AppliedProps) {
  return (
    <Facts
      facts={[
        ['Version', version],
        ['Policies', formatNumber(policies)],
        ['Applied', <Ago key="applied" at={applied_at} />],
        ...(source === null ? [] : [['From', <Place key="from" source={source} />] as const]),
        ['sha256', <code key="hash">{hash}</code>],
      ]}
    />
  )
}

function Place({ source: { path, url, cached } }: { readonly source: BundleSourceJson }) {
  return (
    <>
      <code>{path ?? url}</code>
      {cached && ' (its cached copy: the URL has not confirmed it yet)'}
    </>
  )
}

/** Shows what is wrong with the bundle that the source has now, while the active one stays. */
function SourceProblem({ source, active }: { readonly source: BundleSourceJson; readonly active: BundleJson | null }) {
  const { path, url, problem, refused } = source
  if (problem === null) return null
  const whatStays = active === null ? 'No bundle is active.' : `Version ${active.version} stays active.`
  return (
    <Notice tone="bad">
      <p>
        <strong>{refused === null ? 'The bundle cannot be read.' : 'The newest bundle was refused.'}</strong> {whatStays}{' '}
        <code>{path ?? url}</code>
        {refused === null && `: ${problem}`}
      </p>
      {refused !== null && (
        <ul class="problems" aria-label="Problems">
          {refused.problems.map((text) => (
            <li key={text}>{text}</li>
          ))}
          {refused.problems_in_all > refused.problems.length && (
            <li>and {formatCount(refused.problems_in_all - refused.problems.length, 'more problem')}: `edge validate` lists them all</li>
          )}
        </ul>
      )}
    </Notice>
  )
}
