import { useLayoutEffect, useRef } from 'preact/hooks'
import type { BundleComparisonJson, BundleReportJson } from '../../src/admin/api/instance-types.ts'
import { ask } from '../api.ts'
import { formatCount, formatNumber } from '../format.ts'
import { useLoaded } from '../loaded.ts'
import { address, addressOf } from '../navigation.ts'
import { EmptyState } from '../parts/empty-state.tsx'
import { Facts } from '../parts/facts.tsx'
import { Notice } from '../parts/notice.tsx'
import { Panel } from '../parts/panel.tsx'
import { Ago, Moment } from '../parts/time.tsx'
import { printable } from '../printable.ts'
import type { KnownBundle } from './bundle-list.tsx'
import { type BundleTexts, LONG_MS, type ShownLines } from './bundle-texts.ts'
import { Changes } from './changes.tsx'
import { LineView } from './line-view.tsx'
import { RollbackHint } from './rollback-hint.tsx'

interface BundleDetailProps {
  readonly bundle: KnownBundle
  /** All that are listed, the newest first. */
  readonly bundles: readonly KnownBundle[]
  readonly report: BundleReportJson
  readonly texts: BundleTexts
}

/** Shows one bundle: what is known about it, what differs, and its text. */
export function BundleDetail({ bundle, bundles, report, texts }: BundleDetailProps) {
  const looks = looksAt(bundle, bundles)
  const shown = looks.find(({ name }) => name === address.value.parameters.get('show')) ?? looks[0]
  const top = useRef<HTMLDivElement>(null)
  const isFirst = useRef(true)
  useLayoutEffect(() => {
    // The list above may fill the screen, so whoever chooses another bundle there is taken to it.
    if (!isFirst.current) top.current!.focus()
    isFirst.current = false
  }, [bundle.version])
  return (
    <>
      <div class="panels chosen" ref={top} tabIndex={-1}>
        <Panel title={bundle.isActive ? `Active bundle: version ${bundle.version}` : `Version ${bundle.version}`}>
          <BundleFacts bundle={bundle} report={report} />
        </Panel>
        {!bundle.isActive && <RollbackHint bundle={bundle} report={report} />}
      </div>
      <ul class="kinds" aria-label={`What to show of version ${bundle.version}`}>
        {looks.map(({ name, title }) => (
          <li key={name}>
            <a href={addressOf('bundle', { version: bundle.version, show: name })} aria-current={name === shown?.name ? 'true' : undefined}>
              {title}
            </a>
          </li>
        ))}
      </ul>
      {shown === undefined ? (
        <EmptyState>Its text is not kept any more.</EmptyState>
      ) : (
        <Shown key={`${bundle.hash} ${shown.name} ${shown.before?.hash}`} look={shown} texts={texts} />
      )}
    </>
  )
}

/** Something to look at: a text, or what differs between two bundles. */
interface Look {
  readonly name: string
  readonly title: string
  readonly isText: boolean
  /** The earlier bundle of a comparison. */
  readonly before: KnownBundle | undefined
  readonly after: KnownBundle
}

/** Returns what can be shown of a bundle. */
function looksAt(bundle: KnownBundle, bundles: readonly KnownBundle[]): readonly Look[] {
  const before = bundles[bundles.indexOf(bundle) + 1]
  const active = bundles.find(({ isActive }) => isActive)
  const looks: Look[] = []
  const compare = (name: string, [from, to]: readonly [KnownBundle, KnownBundle], words: string, isKnown: boolean): void => {
    const hasTexts = from.has_text && to.has_text
    if (isKnown || hasTexts) looks.push({ name: `changes${name}`, title: `Changes ${words}`, isText: false, before: from, after: to })
    if (hasTexts) looks.push({ name: `lines${name}`, title: `Lines ${words}`, isText: true, before: from, after: to })
  }
  if (before !== undefined) compare('', [before, bundle], `since ${before.version}`, bundle.changes !== null)
  if (active !== undefined && active !== bundle)
    compare(
      '-to-active',
      [bundle, active],
      `from it to the active ${active.version}`,
      bundles.indexOf(active) + 1 === bundles.indexOf(bundle),
    )
  if (bundle.has_text) looks.push({ name: 'text', title: 'Text', isText: true, before: undefined, after: bundle })
  return looks
}

function BundleFacts({ bundle, report }: Pick<BundleDetailProps, 'bundle' | 'report'>) {
  const { policies, warnings, warning_texts: texts, applied_at, format, bytes, signed, hash, publication, isActive } = bundle
  const { actor = null, reason = null, source = null } = publication ?? {}
  const place = source ?? (isActive ? (report.source?.path ?? report.source?.url ?? null) : null)
  const isCached = isActive && report.source?.cached
  return (
    <Facts
      facts={[
        ['Policies', formatNumber(policies)],
        [
          'Applied',
          <span key="applied">
            <Moment at={applied_at} withDate />, <Ago at={applied_at} />
          </span>,
        ],
        [
          'From',
          place === null ? (
            'not known any more'
          ) : (
            <span key="from">
              <code>{printable(place)}</code>
              {isCached && ' (its cached copy: the URL has not confirmed it yet)'}
            </span>
          ),
        ],
        ...(actor === null ? [] : [['By', printable(actor)] as const]),
        ...(reason === null ? [] : [['Why', printable(reason)] as const]),
        ['Text', `${format === 'yaml' ? 'YAML' : 'JSON'}, ${formatCount(bytes, 'byte')}${signed ? ', signed' : ''}`],
        ['Warnings', warnings === 0 ? 'none' : <Warnings key="warnings" count={warnings} texts={texts} />],
        ['sha256', <code key="hash">{hash}</code>],
      ]}
    />
  )
}

/** Whoever is on call may not have the bundle's file, so its warnings are shown as edge validate would print them. */
function Warnings({ count, texts }: { readonly count: number; readonly texts: readonly string[] }) {
  const more = count - texts.length
  return (
    <ul class="bundle-warnings" aria-label="Warnings">
      {texts.map((text) => (
        <li key={text}>{printable(text)}</li>
      ))}
      {more > 0 && <li>and {formatNumber(more)} more: edge validate lists all</li>}
    </ul>
  )
}

function Shown({ look, texts }: { readonly look: Look; readonly texts: BundleTexts }) {
  if (!look.isText) return <Comparison before={look.before!} after={look.after} />
  return <Lines look={look} texts={texts} />
}

function Comparison({ before, after }: { readonly before: KnownBundle; readonly after: KnownBundle }) {
  const path = `bundles/${after.version}/changes?from=${before.version}`
  const { data, failure } = useLoaded(path, () => ask<BundleComparisonJson>('GET', path, undefined, LONG_MS))
  if (failure.value !== undefined) return <Notice tone="bad">{failure}</Notice>
  if (data.value === undefined) return <EmptyState>Comparing. For thousands of policies that takes some seconds.</EmptyState>
  return <Changes title={`What changed from version ${before.version} to ${after.version}`} changes={data.value.changes} />
}

function Lines({ look: { before, after }, texts }: { readonly look: Look; readonly texts: BundleTexts }) {
  const { data, failure } = useLoaded('lines', (stop) =>
    before === undefined ? texts.lines(after, stop) : texts.difference(before, after, stop),
  )
  if (failure.value !== undefined) return <Notice tone="bad">{failure}</Notice>
  if (data.value === undefined) return <EmptyState>Loading.</EmptyState>
  const { lines, hidden, isLaidOut } = data.value
  const title =
    before === undefined ? `Text of version ${after.version}` : `Lines that differ from version ${before.version} to ${after.version}`
  return (
    <Panel title={title} aside={notes(data.value)} isWide>
      {lines === undefined && (
        <EmptyState>
          The texts differ in too many lines to list them. The changes are listed by policy, and `edge bundle --text {after.version}` prints
          the text.
        </EmptyState>
      )}
      {lines?.lines.length === 0 && <EmptyState>{before === undefined ? 'The text is empty.' : 'No line differs.'}</EmptyState>}
      {lines !== undefined && lines.lines.length > 0 && (
        <LineView label={title} text={lines} isDifference={before !== undefined} key={`${hidden} ${isLaidOut}`} />
      )}
    </Panel>
  )
}

function notes({ hidden, isLaidOut }: ShownLines): string | undefined {
  const sentences = [
    hidden > 0 ? `${formatCount(hidden, 'credential is', 'credentials are')} shown as ${hidden === 1 ? 'a digest' : 'digests'}.` : '',
    isLaidOut ? 'The JSON is shown with line breaks that it does not have.' : '',
  ].filter((sentence) => sentence !== '')
  return sentences.length === 0 ? undefined : sentences.join(' ')
}
