import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { hasLongLines, laidOut } from '../../console/bundle/json-layout.ts'
import { differentLines, textLines } from '../../console/bundle/text-lines.ts'
import { runs } from '../support/run/property-runs.ts'

describe('the rows of a text', () => {
  test('are its lines with their numbers, whatever ends them', () => {
    const { lines, width, lastNumber } = result(textLines('a: 1\r\n\n\tb\nlast'))
    expect(lines.map(({ after, text }) => [after, text])).toEqual([
      [1, 'a: 1'],
      [2, ''],
      [3, '\tb'],
      [4, 'last'],
    ])
    expect([width, lastNumber]).toEqual([4, 4])
  })

  test('continue where a line is too long for one', () => {
    const { lines, width } = result(textLines(`${'x'.repeat(1001)}\nshort`))
    expect(lines.map(({ after, text }) => [after, text.length])).toEqual([
      [1, 400],
      [undefined, 400],
      [undefined, 201],
      [2, 5],
    ])
    expect(width).toBe(400)
  })

  test('are never more than a browser can show', () => {
    const { lines, isCut } = result(textLines('\n'.repeat(1_000_000)))
    expect([lines.length, isCut]).toEqual([500_000, true])
  })
})

test('a difference has the numbers of both texts, and a row where equal lines are left out', () => {
  const before = Array.from({ length: 20 }, (_, i) => `line ${i + 1}`)
  const after = before.with(9, 'ten').toSpliced(18, 1)
  const { lines } = result(differentLines(before.join('\n'), after.join('\n')))!
  expect(lines.filter(({ kind }) => kind !== ' ')).toEqual([
    { kind: '…', text: '', before: undefined, after: undefined },
    { kind: '-', text: 'line 10', before: 10, after: undefined },
    { kind: '+', text: 'ten', before: undefined, after: 10 },
    { kind: '…', text: '', before: undefined, after: undefined },
    { kind: '-', text: 'line 19', before: 19, after: undefined },
  ])
  expect(result(differentLines('same', 'same'))!.lines).toEqual([])
})

describe('JSON on one line', () => {
  test('gets a line for each member', () => {
    expect(result(laidOut('{"a":[],"b":{"c":[1,"x, {y}: \\"z\\""]},"d":{ },"e":12345678901234567890}'))).toBe(`{
  "a": [],
  "b": {
    "c": [
      1,
      "x, {y}: \\"z\\""
    ]
  },
  "d": {},
  "e": 12345678901234567890
}
`)
  })

  test('stays the same JSON, whatever it is', () => {
    fc.assert(
      fc.property(fc.json(), fc.constantFrom(undefined, 1), (json, indent) => {
        const text = JSON.stringify(JSON.parse(json), undefined, indent)
        expect(JSON.parse(result(laidOut(text)))).toEqual(JSON.parse(json))
      }),
      { numRuns: runs(300) },
    )
  })

  test('does not grow beyond measure where it is deep, and needs no stack where a string is long', () => {
    const deep = `${'['.repeat(20_000)}${']'.repeat(20_000)}`
    expect(result(laidOut(deep)).length).toBeLessThan(deep.length * 50)
    const long = JSON.stringify({ text: '\\"'.repeat(2_000_000) })
    expect(result(laidOut(long)).length).toBe(long.length + 6)
  })

  test('is told from a text with lines', () => {
    expect([hasLongLines('a\n'.repeat(10_000)), hasLongLines(`a\n${'b'.repeat(2500)}\nc`), hasLongLines('c'.repeat(100))]).toEqual([
      false,
      true,
      false,
    ])
  })
})

function result<Value>(steps: Generator<void, Value>): Value {
  for (;;) {
    const { done, value } = steps.next()
    if (done) return value
  }
}
