import { expect, test } from 'vitest'
import { codeWords, readText, tableRows } from '../docs/markdown.ts'
import { deployedRules } from '../support/prometheus/deployed.ts'

test('docs/dashboards.md lists every recording rule', () => {
  const listed = tableRows(readText('docs/dashboards.md'), ['Record', 'What it is']).flatMap(([record]) => codeWords(record!))
  expect(listed).toEqual(deployedRules().flatMap(({ record = [] }) => record))
})

test('docs/dashboards.md lists every severity', () => {
  const listed = tableRows(readText('docs/dashboards.md'), ['Severity', 'Alerts']).map(([severity]) => codeWords(severity!)[0])
  expect(new Set(listed)).toEqual(new Set(deployedRules().flatMap(({ labels }) => labels?.['severity'] ?? [])))
})
