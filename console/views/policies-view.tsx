import { useSignal, useSignalEffect } from '@preact/signals'
import { useCallback, useEffect, useMemo } from 'preact/hooks'
import type { PolicyJson, PolicyPage } from '../../src/admin/api/types.ts'
import { isLost } from '../connection.ts'
import { formatCount, formatNumber } from '../format.ts'
import { usePoll } from '../live.ts'
import { address, addressOf } from '../navigation.ts'
import { Badge } from '../parts/badge.tsx'
import type { Column } from '../parts/data-table.tsx'
import { EmptyState } from '../parts/empty-state.tsx'
import { Field } from '../parts/field.tsx'
import { Notice } from '../parts/notice.tsx'
import { WindowedTable } from '../parts/windowed-table.tsx'
import { PolicyDetail } from '../policies/policy-detail.tsx'
import { PolicyList } from '../policies/policy-list.ts'
import { ruleWords, selectorWords } from '../policy-words.ts'
import { csrfToken } from '../session.ts'
import { status } from '../status.ts'

/** Delay after the last keystroke before the filter is applied. */
const TYPING_MS = 150
/** Figures are requested in blocks of rows, so that a small scroll requests nothing new. */
const BLOCK_ROWS = 50
const FIGURES_MS = 4000
/** The next page is loaded when at most this many rows remain. */
const AHEAD_ROWS = 100

export function PoliciesView() {
  const list = useMemo(() => new PolicyList(), [])
  const search = useSignal(address.peek().parameters.get('search') ?? '')
  const selected = address.value.parameters.get('policy')
  const hash = status.value?.bundle?.hash
  const isAsking = !isLost.value && csrfToken.value !== null
  useEffect(() => {
    if (!isAsking) return
    const timer = setTimeout(() => void list.load(search.value), TYPING_MS)
    return () => clearTimeout(timer)
  }, [list, search.value, hash, isAsking])
  const count = status.value?.bundle?.policies
  return (
    <>
      <div class="bar policies-bar">
        <Field label="Filter" hint="a part of an id, path, method, host, rule, key or algorithm">
          {(control) => (
            <input
              {...control}
              type="search"
              value={search}
              maxLength={256}
              onInput={(event) => (search.value = event.currentTarget.value)}
            />
          )}
        </Field>
        <p class="quiet" role="status">
          <Found list={list} isFiltered={search.value !== ''} count={count} />
        </p>
      </div>
      {list.failure.value !== undefined && <Notice tone="bad">{list.failure}</Notice>}
      <div class={selected === null ? 'policies' : 'policies with-detail'}>
        <PolicyRows list={list} selected={selected} search={search.value} count={count} />
        {selected !== null && <PolicyDetail key={selected} id={selected} />}
      </div>
    </>
  )
}

interface FoundProps {
  readonly list: PolicyList
  readonly isFiltered: boolean
  readonly count: number | undefined
}

function Found({ list, isFiltered, count }: FoundProps) {
  if (!isFiltered) return <>{count === undefined ? '' : formatCount(count, 'policy', 'policies')}</>
  const { rows, isComplete, isLoading } = list
  if (isLoading.value && rows.value.length === 0) return <>searching</>
  return (
    <>
      {isComplete.value ? '' : 'more than '}
      {formatNumber(rows.value.length)} of {formatCount(count ?? 0, 'policy', 'policies')}
    </>
  )
}

interface PolicyRowsProps {
  readonly list: PolicyList
  readonly selected: string | null
  readonly search: string
  readonly count: number | undefined
}

function PolicyRows({ list, selected, search, count }: PolicyRowsProps) {
  const rows = list.rows.value
  const block = useSignal(0)
  const onWindow = useCallback(
    (first: number, last: number) => {
      block.value = Math.floor(first / BLOCK_ROWS) * BLOCK_ROWS
      if (last + AHEAD_ROWS >= list.rows.peek().length) void list.loadMore()
    },
    [list, block],
  )
  if (rows.length === 0) {
    if (list.failure.value !== undefined) return null
    if (list.isLoading.value || status.value === undefined) return <EmptyState>Loading.</EmptyState>
    if (search !== '') return <EmptyState>No policy contains this text.</EmptyState>
    return <EmptyState>{status.value?.bundle === null ? 'There is no bundle yet.' : 'The bundle has no policies.'}</EmptyState>
  }
  return (
    <div class="panel">
      <Figures list={list} place={block.value} />
      <WindowedTable
        caption="Policies, with what each decided in the last minute"
        columns={columnsOf(search)}
        rows={rows}
        rowKey={({ id }) => id}
        isSelected={({ id }) => id === selected}
        total={search === '' ? count : list.isComplete.value ? rows.length : undefined}
        onWindow={onWindow}
      />
    </div>
  )
}

/** Keeps the figures of the visible rows up to date. It renders nothing itself. */
function Figures({ list, place }: { readonly list: PolicyList; readonly place: number }) {
  const { data } = usePoll<PolicyPage>(list.pathFrom(place, 2 * BLOCK_ROWS), FIGURES_MS)
  useSignalEffect(() => {
    if (data.value !== undefined) list.update(place, data.value.policies)
  })
  return null
}

function columnsOf(search: string): Column<PolicyJson>[] {
  const number = (count: number, tone: string) =>
    count === 0 ? <span class="quiet">0</span> : <span class={tone}>{formatNumber(count)}</span>
  return [
    {
      title: 'Policy',
      isHeading: true,
      cell: ({ id }) => (
        <a href={addressOf('policies', { policy: id, ...(search !== '' && { search }) })} title={id}>
          {id}
        </a>
      ),
    },
    { title: 'Mode', cell: ({ mode }) => (mode === 'shadow' ? <Badge tone="accent">shadow</Badge> : <span class="quiet">enforce</span>) },
    { title: 'Covers', isMinor: true, cell: ({ selector }) => <span title={selectorWords(selector)}>{selectorWords(selector)}</span> },
    { title: 'Limits', isMinor: true, cell: ({ rules }) => <Limits rules={rules} /> },
    { title: 'Allowed, last minute', isNumber: true, cell: ({ last_minute }) => number(last_minute.allowed, '') },
    { title: 'Rejected, last minute', isNumber: true, cell: ({ last_minute }) => number(last_minute.rejected, 'bad') },
    { title: 'Would reject, last minute', isNumber: true, cell: ({ last_minute }) => number(last_minute.would_reject, 'warn') },
  ]
}

function Limits({ rules }: { readonly rules: PolicyJson['rules'] }) {
  const [first, ...others] = rules
  if (first === undefined) return <span class="quiet">no rules</span>
  const words = ruleWords(first)
  return (
    <span title={words}>
      {others.length > 0 && <span class="quiet">{formatCount(rules.length, 'rule')}: </span>}
      {words}
      {others.length > 0 && ' …'}
    </span>
  )
}
