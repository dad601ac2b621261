import { expect, test } from 'vitest'
import { REASONS } from '../../src/engine/reasons.ts'
import { codeWords, readText, tableRows } from './markdown.ts'

const rows = tableRows(readText('docs/reasons.md'), ['Code', 'Status', 'Meaning'])

test('docs/reasons.md lists every reason code and its meaning, in the order of the source', () => {
  expect(rows.map(([code, , meaning]) => [...codeWords(code!), meaning])).toEqual(Object.entries(REASONS))
})

test('docs/reasons.md gives each reason the status that its meaning calls for', () => {
  const statuses: Readonly<Record<string, string>> = { Allowed: '200', Rejected: '429', 'Bad request': '400', 'No decision': '503' }
  for (const [code, status, meaning] of rows) {
    expect({ code, status }).toEqual({ code, status: statuses[meaning!.split(':')[0]!] ?? '500' })
  }
})
