import { printableJson, printableText } from '../../text/printable.ts'
import { exactMoneyText, type UsageRow, type UsageSums } from '../../usage-log/usage-sums.ts'
import { tableText } from '../text/text-table.ts'
import type { UsageLines } from './usage-lines.ts'

const NUMBERS = ['requests', 'input', 'cachedInput', 'output', 'charged'] as const
const HEADS = ['REQUESTS', 'INPUT', 'CACHED', 'OUTPUT', 'CHARGED', 'COST'] as const
const MISSING = '-'
const OTHERS = '(others)'
/** Longer values are cut in a table, where one makes all rows longer. */
const MAX_CELL_CHARACTERS = 80

/** Formats the report for a terminal, with a line for the total. */
export function usageTable(report: UsageSums): string {
  const { by, others, total } = report
  const columns = [...by.map((head) => ({ head: head.toUpperCase() })), ...HEADS.map((head) => ({ head, isNumber: true }))]
  const rows = report.rows.map((row) => [...row.values.map((value) => tableCell(value ?? MISSING)), ...figures(row)])
  if (others !== undefined) rows.push([OTHERS, ...by.slice(1).map(() => ''), ...figures(others)])
  rows.push(['total', ...by.slice(1).map(() => ''), ...figures(total)])
  return tableText(columns, rows)
}

function tableCell(text: string): string {
  const shown = printableText(text)
  return shown.length > MAX_CELL_CHARACTERS ? `${shown.slice(0, MAX_CELL_CHARACTERS - 1).toWellFormed()}…` : shown
}

function figures(row: UsageRow): string[] {
  return [...NUMBERS.map((name) => row[name].value.toLocaleString('en-US')), money(row.cost.value)]
}

function money(nanos: bigint): string {
  const [whole, fraction] = exactMoneyText(nanos).split('.')
  return `${BigInt(whole!).toLocaleString('en-US')}.${fraction}`
}

/** Formats the report as RFC 4180 says, without a total. */
export function usageCsv(report: UsageSums): string {
  const { by, others } = report
  const rows = report.rows.map((row) => [...row.values.map((value) => textCell(value ?? '')), ...plainFigures(row)])
  if (others !== undefined) rows.push([OTHERS, ...by.slice(1).map(() => ''), ...plainFigures(others)])
  const head = [...by.map(textCell), 'requests', 'input', 'cached_input', 'output', 'charged', 'cost']
  return [head, ...rows].map((cells) => `${cells.join(',')}\r\n`).join('')
}

function plainFigures(row: UsageRow): string[] {
  return [...NUMBERS.map((name) => row[name].value.toString()), exactMoneyText(row.cost.value)]
}

/** What a terminal would obey, and no spreadsheet needs. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const CONTROL = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]/g
/** What spreadsheets take for the beginning of a formula, in the wide forms of East Asian texts too. */
const FORMULA = /^[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]/

/** Clients choose many of these texts, and a spreadsheet would run one that begins like a formula. */
function textCell(text: string): string {
  const plain = text.replace(CONTROL, '\ufffd')
  const safe = FORMULA.test(plain) ? `'${plain}` : plain
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}

/** Formats the report as JSON. Numbers of any size are written in full. */
export function usageJson(report: UsageSums, { unreadable, damaged }: Pick<UsageLines, 'unreadable' | 'damaged'>): string {
  const rows = report.rows.map((row) => `    ${rowJson(report, row)}`).join(',\n')
  const others = report.others === undefined ? '' : `  "others": ${rowJson(report, report.others)},\n`
  const list = rows === '' ? '[]' : `[\n${rows}\n  ]`
  const missing = `  "unreadable_lines": ${unreadable},\n  "damaged_files": ${JSON.stringify(damaged)}\n`
  return printableJson(
    `{\n  "by": ${JSON.stringify(report.by)},\n  "rows": ${list},\n${others}  "total": ${rowJson(report, report.total)},\n${missing}}\n`,
  )
}

function rowJson({ by }: UsageSums, { values, requests, input, cachedInput, output, charged, cost }: UsageRow): string {
  const labels = Object.fromEntries(by.flatMap((key, i) => (values[i] === undefined ? [] : [[key, values[i]]])))
  const numbers = { requests, input, cached_input: cachedInput, output, charged }
  const texts = Object.entries(numbers).map(([name, sum]) => `"${name}": ${sum.value}`)
  return `{ "values": ${JSON.stringify(labels)}, ${texts.join(', ')}, "cost": "${exactMoneyText(cost.value)}" }`
}
