import { useEffect } from 'preact/hooks'
import { type Column, cellClass } from './data-table.tsx'
import { useScrollHints } from './scroll-hints.ts'
import { useVisibleRows } from './visible-rows.ts'

/** Must match the row height in windowed-table.css. */
const ROW_PX = 32

interface WindowedTableProps<Row> {
  readonly caption: string
  readonly columns: readonly Column<Row>[]
  readonly rows: readonly Row[]
  readonly rowKey: (row: Row) => string | number
  readonly isSelected?: (row: Row) => boolean
  /** Total number of rows, including those that are not loaded yet; undefined if it is unknown. */
  readonly total: number | undefined
  /** Called when other rows become visible, and when rows have been replaced. `last` is the index after the last visible row. */
  readonly onWindow?: (first: number, last: number) => void
}

/** A table of any length. Only the visible rows and some around them are in the page, and all rows must have the same height. */
export function WindowedTable<Row>({ caption, columns, rows, rowKey, isSelected, total, onWindow }: WindowedTableProps<Row>) {
  const { ref: frame } = useScrollHints<HTMLDivElement>()
  const { first, last, look } = useVisibleRows(frame, rows.length, ROW_PX)
  useEffect(() => onWindow?.(first, last), [first, last, rows, onWindow])
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what can be scrolled must be reachable by keyboard
    // biome-ignore lint/a11y/useSemanticElements: a fieldset is for controls, and a section would be a landmark
    <div role="group" class="table windowed" aria-label={caption} tabIndex={0} ref={frame} onScroll={look}>
      <table aria-rowcount={total === undefined ? -1 : total + 1}>
        <caption class="unseen">{caption}</caption>
        <thead>
          <tr aria-rowindex={1}>
            {columns.map((column) => (
              <th key={column.title} scope="col" class={cellClass(column)}>
                {column.title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          <Gap rows={first} />
          {rows.slice(first, last).map((row, i) => (
            <tr key={rowKey(row)} aria-rowindex={first + i + 2} class={isSelected?.(row) ? 'selected' : undefined}>
              {columns.map((column) =>
                column.isHeading ? (
                  <th key={column.title} scope="row" class={cellClass(column)}>
                    {column.cell(row)}
                  </th>
                ) : (
                  <td key={column.title} class={cellClass(column)}>
                    {column.cell(row)}
                  </td>
                ),
              )}
            </tr>
          ))}
          <Gap rows={rows.length - last} />
        </tbody>
      </table>
    </div>
  )
}

/** Fills the space of the rows that are not in the page. */
function Gap({ rows }: { readonly rows: number }) {
  if (rows <= 0) return null
  return (
    // biome-ignore lint/a11y/noAriaHiddenOnFocusable: a row without controls is not focusable
    <tr aria-hidden="true" class="gap">
      <td style={{ height: `${rows * ROW_PX}px` }} />
    </tr>
  )
}
