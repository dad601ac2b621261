import { expect, test } from 'vitest'
import { readText } from './markdown.ts'

type Results = Readonly<Record<'slow' | 'delays', readonly object[]>>

const PAGE = readText('docs/measurements.md')
const RESULTS = JSON.parse(readText('bench/results/proxy.json')) as Results
const { insertTables } = (await fromBench('page.mjs')) as { insertTables: (page: string, results: Results) => string }

test('docs/measurements.md shows slow traffic and delays of bench/results/proxy.json, as they were measured', () => {
  for (const name of ['slow', 'delays']) expect(PAGE).toContain(`<!-- proxy ${name} -->\n\n| `)
  expect(insertTables(PAGE, RESULTS)).toBe(PAGE)
})

test('a table that is not that of the results is found', () => {
  expect(insertTables(PAGE, { ...RESULTS, slow: RESULTS.slow.slice(1) })).not.toBe(PAGE)
})

test('the picture is that of the results, and the page shows it', async () => {
  const { drawPicture } = (await fromBench('picture.mjs')) as { drawPicture: (results: Results) => string }
  expect(readText('bench/results/proxy.svg')).toBe(drawPicture(RESULTS))
  expect(PAGE).toContain('](../bench/results/proxy.svg)')
})

function fromBench(file: string): Promise<unknown> {
  return import(new URL(`../../bench/proxy/${file}`, import.meta.url).href)
}
