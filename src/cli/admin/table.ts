/** A column of a table: its head, and how its cells are aligned. */
export interface Column {
  readonly head: string
  readonly isNumber?: boolean
}

/** Aligned columns, indented by two spaces; the last one is not padded. */
export function tableText(columns: readonly Column[], rows: readonly (readonly string[])[]): string {
  const all = [columns.map(({ head }) => head), ...rows]
  const widths = columns.map((_, c) => Math.max(...all.map((row) => row[c]!.length)))
  const line = (row: readonly string[]): string =>
    row.map((cell, c) => (columns[c]!.isNumber ? cell.padStart(widths[c]!) : cell.padEnd(widths[c]!))).join('  ')
  return all.map((row) => `  ${line(row)}`.trimEnd().concat('\n')).join('')
}

/** Names and what they have, one to a line, indented. */
export function listText(rows: readonly (readonly [name: string, value: string])[], indent = '  '): string {
  const width = Math.max(0, ...rows.map(([name]) => name.length))
  return rows.map(([name, value]) => `${indent}${name.padEnd(width)}  ${value}\n`).join('')
}
