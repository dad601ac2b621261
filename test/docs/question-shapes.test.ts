import { expect, test } from 'vitest'
import { QUESTION_SHAPES } from '../../src/doors/question-shapes.ts'
import { readText, tableRows } from './markdown.ts'

test('docs/decision-api.md lists every way to ask with its method and the fields that are read, in the order of the source', () => {
  const header = ['Path', 'Method', 'Original method', 'Original URI', 'Original host', 'For']
  const rows = tableRows(readText('docs/decision-api.md'), header).map((row) => {
    const [path, own, ...originals] = row.slice(0, 5).map((cell) => /`(.+?)`/.exec(cell)?.[1]?.toLowerCase())
    return [path!.replace('/<original target>', ''), own, ...originals]
  })
  const expected = QUESTION_SHAPES.map(({ path, methods, method, uri, host }) => [
    path,
    methods?.[0]?.toLowerCase(),
    method?.name,
    uri?.name ?? path,
    host?.name ?? uri?.name,
  ])
  expect(rows).toEqual(expected)
})
