import { useRef } from 'preact/hooks'

/** A row in its place. */
export interface SteadyRow<Row> {
  readonly row: Row
  /** It is in the list no more. It stays in its place, so that the rows below it do not move. */
  readonly isGone: boolean
}

type Key = string | number

/** Rows that are gone may take this many places, or as many as the others. Then all of them make room. */
const GONE_ROWS = 10

/**
 * Keeps rows in their places while their figures change, so that nothing moves under the cursor: new rows are added at the end. `order` is compared by
 * identity; another one puts all rows in the order in which they are given.
 */
export function useSteadyRows<Row>(rows: readonly Row[], rowKey: (row: Row) => Key, order: unknown): readonly SteadyRow<Row>[] {
  const kept = useRef<{ readonly order: unknown; readonly places: ReadonlyMap<Key, Row> } | undefined>(undefined)
  const current = new Map(rows.map((row) => [rowKey(row), row]))
  const before = kept.current?.order === order ? kept.current!.places : new Map<Key, Row>()
  const all = new Map([...before, ...current])
  const gone = all.size - current.size
  const places = current.size === 0 || gone > Math.max(GONE_ROWS, current.size) ? current : all
  kept.current = { order, places }
  return Array.from(places, ([key, row]) => ({ row, isGone: !current.has(key) }))
}
