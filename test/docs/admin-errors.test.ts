import { expect, test } from 'vitest'
import { API_ERRORS } from '../../src/admin/api/api-error.ts'
import { codeWords, readText, tableRows } from './markdown.ts'

test('docs/operations.md lists every error code of the admin API with its status', () => {
  const rows = tableRows(readText('docs/operations.md'), ['Status', 'Code', 'Meaning'])
  const listed = rows.flatMap(([status, codes]) => codeWords(codes!).map((code): [string, number] => [code, Number(status)]))
  expect(Object.fromEntries(listed)).toEqual(API_ERRORS)
  expect(listed).toHaveLength(Object.keys(API_ERRORS).length)
})
