import { expect, test } from 'vitest'
import { CATALOGUE } from '../../src/telemetry/metrics/catalogue.ts'
import { codeWords, readText, tableRows } from './markdown.ts'

test('docs/metrics.md lists every metric with its type and labels, in the order of the source', () => {
  const rows = tableRows(readText('docs/metrics.md'), ['Name', 'Type', 'Labels', 'Meaning'])
  const listed = rows.map(([name, type, labels]) => ({ name: codeWords(name!)[0], type, labels: codeWords(labels!) }))
  expect(listed).toEqual(Object.entries(CATALOGUE).map(([name, { type, labels }]) => ({ name, type, labels })))
})
