import { useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useMemo } from 'preact/hooks'
import { EmptyState } from './empty-state.tsx'
import { useScrollHints } from './scroll-hints.ts'
import { type SteadyRow, useSteadyRows } from './steady-rows.ts'

export interface Column<Row> {
  readonly title: string
  readonly cell: (row: Row) => ComponentChildren
  /** Numbers are aligned to the right, with digits of equal width. */
  readonly isNumber?: boolean
  /** Whether this is the row's heading, which screen readers announce with the other cells. */
  readonly isHeading?: boolean
  /** Value by which rows are sorted; without it, the column cannot be sorted. */
  readonly sortBy?: (row: Row) => number | string
  /** Whether the column is hidden on a phone. */
  readonly isMinor?: boolean
}

interface DataTableProps<Row> {
  /** Describes the table to screen readers; it is not visible. */
  readonly caption: string
  readonly columns: readonly Column<Row>[]
  readonly rows: readonly Row[]
  readonly rowKey: (row: Row) => string | number
  /** Shown instead of a table without rows. */
  readonly empty: ComponentChildren
  /** If set, rows stay in their places while their figures change, until this changes or somebody clicks a column head. */
  readonly steadySince?: number
  /** Whether each row becomes a list of its cells where there is no room for them side by side. */
  readonly isStacked?: boolean
  /** Whether the address of the page names this row: it is marked, and scrolled to. */
  readonly isNamed?: ((row: Row) => boolean) | undefined
}

interface Order {
  readonly title: string
  readonly isDescending: boolean
}

/** A table with a head that stays visible. Rows have the order in which they are given until somebody clicks a column head. */
export function DataTable<Row>(props: DataTableProps<Row>) {
  const { caption, columns, rows, rowKey, empty, steadySince, isStacked = false, isNamed } = props
  const order = useSignal<Order | undefined>(undefined)
  const { ref, isWide } = useScrollHints<HTMLDivElement>()
  const by = columns.find(({ title }) => title === order.value?.title)?.sortBy
  const inOrder = by === undefined ? rows : sorted(rows, by, order.value!.isDescending)
  const token = useMemo(() => ({}), [steadySince, order.value])
  const steady = useSteadyRows(steadySince === undefined ? [] : inOrder, rowKey, token)
  const shown: readonly SteadyRow<Row>[] = steadySince === undefined ? inOrder.map((row) => ({ row, isGone: false })) : steady
  if (shown.length === 0) return <EmptyState>{empty}</EmptyState>
  return (
    <>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what can be scrolled must be reachable by keyboard */}
      {/* biome-ignore lint/a11y/useSemanticElements: a fieldset is for controls, and a section would be a landmark */}
      <div role="group" class={isStacked ? 'table stacked' : 'table'} aria-label={caption} tabIndex={0} ref={ref}>
        <table>
          <caption class="unseen">{caption}</caption>
          <thead>
            <tr>
              {columns.map((column) => (
                <HeadCell key={column.title} column={column} order={order.value} onOrder={(next) => (order.value = next)} />
              ))}
            </tr>
          </thead>
          <tbody>
            {shown.map(({ row, isGone }) => (
              <tr key={rowKey(row)} class={isGone ? 'gone' : undefined} {...(isNamed?.(row) && NAMED)}>
                {columns.map((column) => (
                  <BodyCell key={column.title} column={column} row={row} isGone={isGone} isStacked={isStacked} />
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {isWide && <p class="sideways">Scroll sideways for all columns.</p>}
    </>
  )
}

const NAMED = {
  'aria-current': 'true',
  ref: (row: HTMLElement | null): void => row?.scrollIntoView({ block: 'nearest' }),
} as const

interface HeadCellProps<Row> {
  readonly column: Column<Row>
  readonly order: Order | undefined
  readonly onOrder: (order: Order | undefined) => void
}

function HeadCell<Row>({ column, order, onOrder }: HeadCellProps<Row>) {
  const { title, sortBy, isNumber = false } = column
  const isSorted = order?.title === title
  // Numbers are first sorted with the largest on top, texts alphabetically; the third click restores the original order.
  const next = !isSorted
    ? { title, isDescending: isNumber }
    : order.isDescending === isNumber
      ? { title, isDescending: !isNumber }
      : undefined
  return (
    <th scope="col" class={cellClass(column)} aria-sort={isSorted ? (order.isDescending ? 'descending' : 'ascending') : undefined}>
      {sortBy === undefined ? (
        title
      ) : (
        <button type="button" class="sort" onClick={() => onOrder(next)}>
          {title}
          <span aria-hidden="true">{isSorted ? (order.isDescending ? ' ↓' : ' ↑') : ''}</span>
        </button>
      )}
    </th>
  )
}

interface BodyCellProps<Row> extends SteadyRow<Row> {
  readonly column: Column<Row>
  readonly isStacked: boolean
}

function BodyCell<Row>({ column, row, isGone, isStacked }: BodyCellProps<Row>) {
  const { title, isHeading, cell } = column
  if (!isHeading)
    return (
      <td class={cellClass(column)} data-title={isStacked ? title : undefined}>
        {isStacked ? <div>{cell(row)}</div> : cell(row)}
      </td>
    )
  return (
    <th scope="row" class={cellClass(column)}>
      {cell(row)}
      {isGone && <span class="quiet"> not listed any more</span>}
    </th>
  )
}

export function cellClass<Row>({ isNumber, isMinor }: Column<Row>): string | undefined {
  const classes = [isNumber && 'number', isMinor && 'minor'].filter(Boolean)
  return classes.length === 0 ? undefined : classes.join(' ')
}

function sorted<Row>(rows: readonly Row[], by: (row: Row) => number | string, isDescending: boolean): readonly Row[] {
  const sign = isDescending ? -1 : 1
  return rows.toSorted((a, b) => sign * compare(by(a), by(b)))
}

function compare(a: number | string, b: number | string): number {
  return typeof a === 'number' && typeof b === 'number' ? a - b : String(a).localeCompare(String(b), 'en', { numeric: true })
}
