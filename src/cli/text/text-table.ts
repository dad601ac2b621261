import { printableText } from '../../text/printable.ts'
import { textOfBytes } from './caller-values.ts'

/** A column of a table: its heading, and how its cells are aligned. */
export interface Column {
  readonly head: string
  readonly isNumber?: boolean
}

/** Formats aligned columns, indented by two spaces. The last column is not padded, because one caller may have a long name. */
export function tableText(columns: readonly Column[], rows: readonly (readonly string[])[]): string {
  const all = [columns.map(({ head }) => head), ...rows]
  const last = columns.length - 1
  const widths = columns.map((_, c) => (c === last ? 0 : widest(all.map((row) => row[c]!))))
  const cellText = (cell: string, c: number): string => (columns[c]!.isNumber ? cell.padStart(widths[c]!) : cell.padEnd(widths[c]!))
  return all.map((row) => `  ${row.map(cellText).join('  ')}`.trimEnd().concat('\n')).join('')
}

/** Formats names and their values, one pair to a line, indented. */
export function listText(rows: readonly (readonly [name: string, value: string])[], indent = '  '): string {
  const width = widest(rows.map(([name]) => name))
  return rows.map(([name, value]) => `${indent}${name.padEnd(width)}  ${value}\n`).join('')
}

function widest(texts: readonly string[]): number {
  return texts.reduce((width, text) => Math.max(width, text.length), 0)
}

/** Returns a copy of a value in which all texts are printable, names included. */
export function printableTexts(value: unknown): unknown {
  return printableParts(value, '', false)
}

/** Returns a copy of a response of the API in which all texts are printable, and times have no fractions of a second. */
export function printable(response: unknown): unknown {
  return printableParts(response, '', true)
}

/** Members of responses that are times. A caller's values have other names: keys with a colon, or `bearer`. */
const TIME_NAME = /^(?:at|since|time|until_before)$|_at$|(?:^|_)until$/
const FRACTION = /\.\d{1,9}Z$/

function printableParts(value: unknown, name: string, isResponse: boolean): unknown {
  if (typeof value === 'string')
    return printableText(textOfBytes(isResponse && TIME_NAME.test(name) ? value.replace(FRACTION, 'Z') : value))
  if (Array.isArray(value)) return value.map((item) => printableParts(item, '', isResponse))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [printableText(key), printableParts(member, key, isResponse)]))
}

const UNITS = [
  ['d', 86_400],
  ['h', 3600],
  ['min', 60],
  ['s', 1],
] as const

/** Formats a duration in its two largest units, rounded up to whole seconds, such as `2 h 5 min`. */
export function durationText(seconds: number): string {
  let rest = Math.ceil(seconds)
  const parts: string[] = []
  for (const [unit, size] of UNITS) {
    const count = Math.floor(rest / size)
    rest -= count * size
    if (count > 0) parts.push(`${count} ${unit}`)
    else if (parts.length > 0) break
  }
  return parts.slice(0, 2).join(' ') || '0 s'
}

/** Formats a number such as `1,048,576`, with up to two fraction digits. */
export function numberText(value: number): string {
  return value.toLocaleString('en-US', { maximumFractionDigits: 2 })
}

/** Formats a count with its noun, such as `1 policy` or `2 policies`. */
export function countText(count: number, one: string, many = `${one}s`): string {
  return `${numberText(count)} ${count === 1 ? one : many}`
}

/** Formats an amount of money with two to six fraction digits, enough for the cost of a single request. */
export function moneyText(value: number): string {
  return value.toLocaleString('en-US', { minimumFractionDigits: 2, maximumFractionDigits: 6 })
}
