import { expect, test } from 'vitest'
import { API_ERRORS } from '../../src/admin/api/api-error.ts'
import { REASONS } from '../../src/engine/reasons.ts'
import { SETTLE_ERRORS } from '../../src/reservations/reservations.ts'
import { codeWords, readText, tableRows } from './markdown.ts'

const rows = tableRows(readText('docs/reasons.md'), ['Code', 'Status', 'Meaning'])

test('docs/reasons.md lists every reason code with its status and meaning, in the order of the source', () => {
  const expected = Object.entries(REASONS).map(([code, { status, meaning }]) => [code, String(status), meaning])
  expect(rows.map(([code, status, meaning]) => [...codeWords(code!), status, meaning])).toEqual(expected)
})

test('and every code of /v1/settle', () => {
  const codes = tableRows(readText('docs/reasons.md'), ['Error code', 'Status', 'Meaning'])
  const expected = Object.entries(SETTLE_ERRORS).map(([code, { status, meaning }]) => [code, String(status), meaning])
  expect(codes.map(([code, status, meaning]) => [...codeWords(code!), status, meaning])).toEqual(expected)
})

test('and every code of the admin API', () => {
  const codes = tableRows(readText('docs/reasons.md'), ['API code', 'Status', 'Meaning'])
  expect(codes.map(([code, status]) => [...codeWords(code!), Number(status)])).toEqual(Object.entries(API_ERRORS))
})
