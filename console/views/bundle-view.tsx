import { useEffect, useMemo, useRef } from 'preact/hooks'
import type {
  BundleJson,
  BundleListJson,
  BundleReportJson,
  BundleSourceJson,
  ChangesJson,
  Status,
} from '../../src/admin/api/instance-types.ts'
import { BundleDetail } from '../bundle/bundle-detail.tsx'
import { BundleList, type KnownBundle } from '../bundle/bundle-list.tsx'
import { BundleTexts } from '../bundle/bundle-texts.ts'
import { formatCount } from '../format.ts'
import { usePoll } from '../live.ts'
import { address, addressOf } from '../navigation.ts'
import { EmptyState } from '../parts/empty-state.tsx'
import { Notice } from '../parts/notice.tsx'
import { Panel } from '../parts/panel.tsx'
import { useScrollHints } from '../parts/scroll-hints.ts'
import { printable } from '../printable.ts'
import { status } from '../status.ts'

/**
 * Bundles seldom change and their reports may be long, so they are polled rarely. They are also requested at once if the status shows another bundle or
 * problem.
 */
const EVERY_MS = 10_000
/** As many changes as edge keeps: they say who published the last ten bundles. */
const CHANGES_PATH = 'changes?limit=500'

export function BundleView() {
  const texts = useMemo(() => new BundleTexts(), [])
  const report = usePoll<BundleReportJson>('bundle', EVERY_MS)
  const list = usePoll<BundleListJson>('bundles', EVERY_MS)
  const changes = usePoll<ChangesJson>(CHANGES_PATH, EVERY_MS)
  const news = newsOf(status.value)
  const lastNews = useRef(news)
  useEffect(() => {
    if (lastNews.current === news) return
    lastNews.current = news
    for (const poll of [report, list, changes]) void poll.refresh()
  }, [news])
  const failure = report.failure.value ?? list.failure.value
  if (report.data.value === undefined || list.data.value === undefined)
    return failure === undefined ? <EmptyState>Loading.</EmptyState> : <Notice tone="bad">{failure.message}</Notice>
  const { bundle: active, source } = report.data.value
  const bundles = knownBundles(list.data.value, active, changes.data.value)
  const wanted = address.value.parameters.get('version')
  const shown = wanted === null ? bundles.find(({ isActive }) => isActive) : bundles.find(({ version }) => version === wanted)
  return (
    <>
      {source === null ? (
        <Notice tone="warn">No bundle is loaded: set EDGE_CONFIG_FILE or EDGE_CONFIG_URL.</Notice>
      ) : (
        <SourceProblem source={source} active={active} />
      )}
      {active === null && <EmptyState>None yet. Until there is one, every request gets 503.</EmptyState>}
      {bundles.length > 0 && (
        <Panel title="The last ten" aside={<a href={addressOf('changes')}>All changes</a>} isWide>
          <p class="quiet">Choose a version to see what it changed, its text, and how to go back to it.</p>
          <div class="log">
            <BundleList bundles={bundles} shown={shown?.version} />
          </div>
        </Panel>
      )}
      {wanted !== null && shown === undefined && (
        <Notice tone="warn">Version {printable(wanted)} is not among the last ten bundles that were active since edge was started.</Notice>
      )}
      {shown !== undefined && <BundleDetail bundle={shown} bundles={bundles} report={report.data.value} texts={texts} />}
    </>
  )
}

/** Returns what the status says about bundles. */
function newsOf(known: Status | undefined): string {
  const problems = (known?.problems ?? []).filter(({ code }) => code.startsWith('bundle_')).map(({ code, since }) => `${code} ${since}`)
  return [known?.bundle?.hash, ...problems].join(' ')
}

/** Adds to each bundle whether it is active, and how it was published. */
function knownBundles({ bundles }: BundleListJson, active: BundleJson | null, changes: ChangesJson | undefined): readonly KnownBundle[] {
  return bundles.map((bundle) => ({
    ...bundle,
    isActive: bundle.version === active?.version && bundle.hash === active.hash,
    publication: changes?.changes.find(({ change, after }) => change === 'bundle_applied' && after === bundle.version),
  }))
}

/** Shows what is wrong with the bundle that the source has now, while the active one stays. */
function SourceProblem({ source, active }: { readonly source: BundleSourceJson; readonly active: BundleJson | null }) {
  const { path, url, problem, refused } = source
  if (problem === null) return null
  const whatStays = active === null ? 'No bundle is active.' : `Version ${active.version} stays active.`
  const what = refused?.version ? `Version ${refused.version} was refused.` : 'The newest bundle was refused.'
  return (
    <Notice tone="bad">
      <p>
        <strong>{refused === null ? 'The bundle cannot be read.' : what}</strong> {whatStays} <code>{printable(path ?? url ?? '')}</code>
        {refused === null && `: ${printable(problem)}`}
      </p>
      {refused !== null && <Problems refused={refused} />}
      <p>
        <a href={addressOf('events', { kind: 'bundle_refused' })}>Bundles that were refused in the last hour</a>
      </p>
    </Notice>
  )
}

function Problems({ refused: { problems, problems_in_all: inAll } }: { readonly refused: NonNullable<BundleSourceJson['refused']> }) {
  const { ref } = useScrollHints<HTMLUListElement>()
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what can be scrolled must be reachable by keyboard
    <ul class="refusal-problems" aria-label="Problems" tabIndex={0} ref={ref}>
      {problems.map((text) => (
        <li key={text}>{printable(text)}</li>
      ))}
      {inAll > problems.length && <li>and {formatCount(inAll - problems.length, 'more problem')}: `edge validate` lists them all</li>}
    </ul>
  )
}
