import { useSignal } from '@preact/signals'
import type { KeyJson, KeyLabelsJson, KeyPage } from '../../src/admin/api/key-types.ts'
import { ask } from '../api.ts'
import { formatCount, formatNumber } from '../format.ts'
import { useLoaded } from '../loaded.ts'
import { type Column, DataTable } from '../parts/data-table.tsx'
import { EmptyState } from '../parts/empty-state.tsx'
import { Notice } from '../parts/notice.tsx'
import { Panel } from '../parts/panel.tsx'
import { Moment } from '../parts/time.tsx'
import { KeyEnd, KeyLabels, KeyLink, KeyOrigin, KeyStateBadge, NOT_SAVED } from './key-facts.tsx'

/** Keys of one page of the list. */
const PAGE = 50

interface KeyListProps {
  /** Only keys with all of these labels are listed. */
  readonly labels: KeyLabelsJson
  /** Another number has the list loaded again. */
  readonly generation: number
  readonly onChoose: (name: string, value: string) => void
}

/** Lists keys by their ids, a page at a time: there may be a million. */
export function KeyList({ labels, generation, onChoose }: KeyListProps) {
  /** For each page up to the one that is shown, the id after which it begins. */
  const starts = useSignal<readonly string[]>([''])
  const after = starts.value.at(-1)!
  const { data, failure } = useLoaded<KeyPage>(JSON.stringify([after, generation]), (stop) => readPage(labels, after, stop))
  const page = data.value
  const isFirst = starts.value.length === 1
  const next = page?.next ?? null
  // Both buttons stay where they are, so that the focus does too.
  const goBack = (): void => {
    if (!isFirst) starts.value = starts.value.slice(0, -1)
  }
  const goOn = (): void => {
    if (next !== null) starts.value = [...starts.value, next]
  }
  const columns: readonly Column<KeyJson>[] = [
    { title: 'Key', isHeading: true, cell: ({ id }) => <KeyLink id={id} /> },
    { title: 'Labels', cell: (key) => <KeyLabels labels={key.labels} onChoose={onChoose} /> },
    { title: 'State', cell: (key) => <KeyStateBadge keyJson={key} /> },
    { title: 'Expires', cell: ({ expires_at: end }) => <KeyEnd end={end} /> },
    { title: 'Created', cell: ({ created_at: at }) => <Moment at={at} withDate /> },
    { title: 'Why, and by whom', cell: (key) => <KeyOrigin keyJson={key} /> },
  ]
  return (
    <Panel title="Issued keys" aside={page && asideOf(page, starts.value.length)} isWide>
      {page?.keys.some(({ durable }) => !durable) && <Notice tone="warn">{NOT_SAVED}</Notice>}
      {failure.value !== undefined && <Notice tone="bad">{failure}</Notice>}
      {page === undefined ? (
        failure.value === undefined && <EmptyState>Looking.</EmptyState>
      ) : (
        <DataTable
          caption="Issued keys"
          columns={columns}
          rows={page.keys}
          rowKey={({ id }) => id}
          empty={emptyText(labels, isFirst)}
          isStacked
        />
      )}
      {(!isFirst || next !== null) && (
        <div class="actions below">
          <button type="button" aria-disabled={isFirst} onClick={goBack}>
            Previous page
          </button>
          <button type="button" aria-disabled={next === null} onClick={goOn}>
            Next page
          </button>
        </div>
      )}
    </Panel>
  )
}

function asideOf({ keys, next }: KeyPage, number: number): string {
  const count = formatCount(keys.length, 'key')
  return number === 1 && next === null ? count : `page ${formatNumber(number)}, ${count}, by id`
}

function emptyText(labels: KeyLabelsJson, isFirst: boolean): string {
  if (!isFirst) return 'No more keys.'
  return Object.keys(labels).length === 0
    ? 'No keys are issued.'
    : 'No key has these labels. Values are compared exactly: check the spelling.'
}

/** The API looks at so many keys for a response and no more: where few have the labels, it is asked several times for one page. */
async function readPage(labels: KeyLabelsJson, after: string, stop: AbortSignal): Promise<KeyPage | undefined> {
  const keys: KeyJson[] = []
  let next: string | null = after
  do {
    const query: URLSearchParams = new URLSearchParams({
      ...labels,
      limit: String(PAGE - keys.length),
      ...(next !== '' && { after: next }),
    })
    const page: KeyPage = await ask<KeyPage>('GET', `keys?${query}`)
    if (stop.aborted) return undefined
    keys.push(...page.keys)
    next = page.next
  } while (next !== null && keys.length < PAGE)
  return { keys, next }
}
