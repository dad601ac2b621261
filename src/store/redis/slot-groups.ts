import type { CounterRow } from './counter-rows.ts'
import type { RedisLink } from './link/redis-link.ts'

/** Rows whose keys can be used in one call. */
export interface RowGroup<Row extends CounterRow> {
  readonly number: number
  readonly rows: Row[]
}

export function groupsOf<Row extends CounterRow>(link: Pick<RedisLink, 'groupOf'>, rows: readonly Row[]): RowGroup<Row>[] {
  const groups: RowGroup<Row>[] = []
  for (const row of rows) {
    const number = link.groupOf(row.key)
    const group = groups.find((other) => other.number === number)
    if (group === undefined) groups.push({ number, rows: [row] })
    else group.rows.push(row)
  }
  return groups
}
