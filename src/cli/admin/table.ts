/** A column of a table: its head, and how its cells are aligned. */
export interface Column {
  readonly head: string
  readonly isNumber?: boolean
}

/** Aligned columns, indented by two spaces. The last column is not padded: one caller may have a long name. */
export function tableText(columns: readonly Column[], rows: readonly (readonly string[])[]): string {
  const all = [columns.map(({ head }) => head), ...rows]
  const last = columns.length - 1
  const widths = columns.map((_, c) => (c === last ? 0 : widest(all.map((row) => row[c]!))))
  const cellText = (cell: string, c: number): string => (columns[c]!.isNumber ? cell.padStart(widths[c]!) : cell.padEnd(widths[c]!))
  return all.map((row) => `  ${row.map(cellText).join('  ')}`.trimEnd().concat('\n')).join('')
}

/** Names and what they have, one to a line, indented. */
export function listText(rows: readonly (readonly [name: string, value: string])[], indent = '  '): string {
  const width = widest(rows.map(([name]) => name))
  return rows.map(([name, value]) => `${indent}${name.padEnd(width)}  ${value}\n`).join('')
}

function widest(texts: readonly string[]): number {
  return texts.reduce((width, text) => Math.max(width, text.length), 0)
}
