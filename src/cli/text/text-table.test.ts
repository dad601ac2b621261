import { expect, test } from 'vitest'
import { listText, tableText } from './text-table.ts'

test('numbers stand to the right, texts to the left, and no line ends in spaces', () => {
  const columns = [{ head: 'COUNT', isNumber: true }, { head: 'WHO' }, { head: 'WHERE' }]
  expect(
    tableText(columns, [
      ['7', 'alice', 'a'],
      ['1,000', 'b', ''],
    ]),
  ).toBe('  COUNT  WHO    WHERE\n      7  alice  a\n  1,000  b\n')
})

test('names are as wide as the longest', () => {
  expect(
    listText(
      [
        ['a', '1'],
        ['long', '2'],
      ],
      '',
    ),
  ).toBe('a     1\nlong  2\n')
})

test('a long table is no problem', () => {
  const rows = Array.from({ length: 200_000 }, () => ['x'])
  expect(tableText([{ head: 'A' }], rows).length).toBe(200_001 * 4)
})
