import type { ChangeJson, ChangesInShortJson, PastBundleJson } from '../../src/admin/api/instance-types.ts'
import { formatCount, formatNumber } from '../format.ts'
import { addressOf } from '../navigation.ts'
import { Badge } from '../parts/badge.tsx'
import { DataTable } from '../parts/data-table.tsx'
import { Moment } from '../parts/time.tsx'
import { printable } from '../printable.ts'

/** A bundle that is or was active, and what is known about its publication. */
export interface KnownBundle extends PastBundleJson {
  readonly isActive: boolean
  /** How it became active; undefined if that is not listed any more. */
  readonly publication: ChangeJson | undefined
}

interface BundleListProps {
  readonly bundles: readonly KnownBundle[]
  readonly shown: string | undefined
}

/** Lists the last bundles, newest first. Each is a link that shows it below. */
export function BundleList({ bundles, shown }: BundleListProps) {
  return (
    <DataTable
      caption="The last bundles, the newest first"
      columns={[
        {
          title: 'Bundle',
          isHeading: true,
          cell: ({ version, applied_at, isActive }) => (
            <span class="event">
              <Moment at={applied_at} withDate />
              <span>
                <a href={addressOf('bundle', { version })} aria-current={version === shown ? 'true' : undefined}>
                  version {version}
                </a>{' '}
                {isActive && <Badge tone="good">active</Badge>}
              </span>
            </span>
          ),
        },
        {
          title: 'What it changed',
          cell: ({ changes, policies, warnings }) => (
            <>
              <p>{changes === null ? 'The first one since edge was started' : changesWords(changes)}</p>
              <p class="quiet">
                {formatCount(policies, 'policy', 'policies')}
                {warnings > 0 && `, ${formatCount(warnings, 'warning')}`}
              </p>
            </>
          ),
        },
        { title: 'By whom, and why', cell: ({ publication }) => <Publication publication={publication} /> },
      ]}
      rows={bundles}
      rowKey={({ version, hash }) => `${version} ${hash}`}
      empty="No bundle was active since edge was started."
    />
  )
}

function Publication({ publication }: Pick<KnownBundle, 'publication'>) {
  const { actor = null, reason = null, source = null } = publication ?? {}
  return (
    <>
      {actor !== null && <strong>{printable(actor)}</strong>}
      {reason !== null && <p>{printable(reason)}</p>}
      {source !== null && (
        <p class="quiet">
          from <code>{printable(source)}</code>
        </p>
      )}
      {actor === null && reason === null && source === null && <span class="quiet">not known</span>}
    </>
  )
}

/** Describes changes in numbers, such as `1 policy added, 2 changed; another order`. */
function changesWords({ policies, prices, reordered, callers, routing, usage }: ChangesInShortJson): string {
  const words = [
    countedWords(policies, 'policy', 'policies'),
    countedWords(prices, 'price', 'prices'),
    reordered ? 'another order' : '',
    callers ? 'callers changed' : '',
    routing ? 'backends or routes changed' : '',
    usage ? 'usage changed' : '',
  ]
  return words.filter((text) => text !== '').join('; ') || 'Nothing: policies, prices, callers, backends, routes and usage are the same'
}

function countedWords({ added, removed, changed }: ChangesInShortJson['policies'], one: string, many: string): string {
  const counts = Object.entries({ added, removed, changed }).filter(([, count]) => count > 0)
  return counts.map(([what, count], i) => `${i === 0 ? formatCount(count, one, many) : formatNumber(count)} ${what}`).join(', ')
}
