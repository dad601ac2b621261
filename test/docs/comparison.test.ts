import { expect, test } from 'vitest'
import { readText } from './markdown.ts'

interface Results {
  readonly versions: Readonly<Record<string, string>>
  readonly parts: Readonly<Record<string, { readonly date: string; readonly rows: readonly { readonly isMissing?: boolean }[] }>>
}

const PAGE = readText('docs/comparison.md')
const RESULTS = JSON.parse(readText('bench/results/budgets.json')) as Results
const { TABLES, insertTables } = (await fromBench('tables.mjs')) as {
  TABLES: Readonly<Record<string, (part: object) => string>>
  insertTables: (page: string, results: Results) => string
}

test('docs/comparison.md shows every table of bench/results/budgets.json, as it was measured', () => {
  for (const name of Object.keys(TABLES)) expect(PAGE).toContain(`<!-- budgets ${name} -->\n\n| `)
  expect(Object.keys(RESULTS.parts).sort()).toEqual(Object.keys(TABLES).sort())
  expect(insertTables(PAGE, RESULTS)).toBe(PAGE)
})

test('a table that is not that of the results is found', () => {
  const name = 'agents'
  const part = RESULTS.parts[name]!
  const parts = { ...RESULTS.parts, [name]: { ...part, rows: part.rows.slice(1) } }
  expect(insertTables(PAGE, { ...RESULTS, parts })).not.toBe(PAGE)
})

test('the picture is that of the results, and README.md and the page show it', async () => {
  const { drawPicture } = (await fromBench('picture.mjs')) as { drawPicture: (results: Results) => string }
  expect(readText('bench/results/budgets.svg')).toBe(drawPicture(RESULTS))
  expect(readText('README.md')).toContain('](bench/results/budgets.svg)')
  expect(PAGE).toContain('](../bench/results/budgets.svg)')
})

test('the page names the version of LiteLLM that was measured', () => {
  expect([...PAGE.matchAll(/LiteLLM (\d+\.\d+\.\d+)/g)].map(([, version]) => version)).toEqual([RESULTS.versions['litellm']])
})

function fromBench(file: string): Promise<unknown> {
  return import(new URL(`../../bench/budgets/${file}`, import.meta.url).href)
}
