import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { runs } from '../../test/support/run/property-runs.ts'
import { unifiedDiff } from './line-diff.ts'

function diff(before: string, after: string): string | undefined {
  return unifiedDiff(before, after, ['before', 'after'])
}

const numbers = (count: number): string[] => Array.from({ length: count }, (_, i) => `line ${i + 1}`)
const joined = (lines: readonly string[]): string => lines.map((line) => `${line}\n`).join('')

describe('the difference of two texts', () => {
  test('is empty where they are the same', () => {
    expect(diff('', '')).toBe('')
    expect(diff('a\nb', 'a\nb')).toBe('')
  })

  test('has three lines around each change, and changes near each other in one piece', () => {
    const changed = numbers(30)
    changed[9] = 'ten'
    changed.splice(14, 1)
    changed.push('more')
    expect(diff(joined(numbers(30)), joined(changed))).toBe(`--- before
+++ after
@@ -7,12 +7,11 @@
 line 7
 line 8
 line 9
-line 10
+ten
 line 11
 line 12
 line 13
 line 14
-line 15
 line 16
 line 17
 line 18
@@ -28,3 +27,4 @@
 line 28
 line 29
 line 30
+more
`)
  })

  test('of a text and nothing, and of an end that is missing', () => {
    expect(diff('', 'a\n')).toBe('--- before\n+++ after\n@@ -0,0 +1,1 @@\n+a\n')
    expect(diff('a\n', '')).toBe('--- before\n+++ after\n@@ -1,1 +0,0 @@\n-a\n')
    expect(diff('a\n', 'a')).toBe('--- before\n+++ after\n@@ -1,1 +1,1 @@\n-a\n+a\n\\ No newline at end of file\n')
  })

  test('is given up where nobody would read it, and found in large texts that differ in a few places', () => {
    expect(diff(joined(numbers(1500)), joined(numbers(1500).map((line) => `${line}!`)))).toBeUndefined()
    const many = numbers(20_000)
    const few = many.with(7, 'seven').with(15_000, 'x').toSpliced(19_000, 3)
    expect(diff(joined(many), joined(few))?.match(/^@@/gm)).toHaveLength(3)
  })
})

test('applied to the first text it makes the second, whatever they are', () => {
  const line = fc.constantFrom('a', 'b', 'c', '', ' ', '-x', '+y')
  const text = fc.tuple(fc.array(line, { maxLength: 20 }), fc.boolean()).map(([lines, hasEnd]) => lines.join('\n') + (hasEnd ? '\n' : ''))
  fc.assert(
    fc.property(text, text, (before, after) => {
      const found = diff(before, after)!
      if (before === after) expect(found).toBe('')
      else expect(applied(before, found)).toBe(after)
    }),
    { numRuns: runs(300) },
  )
})

/** What `patch` does, and no more: every line must be where the diff says. */
function applied(text: string, difference: string): string {
  const old = text.split(/(?<=\n)/)
  const made: string[] = []
  let at = 0
  for (const hunk of difference.split(/^(?=@@ )/m).slice(1)) {
    const [, start, count] = /^@@ -(\d+),(\d+) \+\d+,\d+ @@\n/.exec(hunk)!.map(Number) as [number, number, number]
    const from = count === 0 ? start : start - 1
    made.push(...old.slice(at, from))
    at = from
    for (const [, kind, line, noEnd] of hunk.slice(hunk.indexOf('\n') + 1).matchAll(/^([ +-])(.*\n)(\\ No newline at end of file\n)?/gm)) {
      const written = noEnd === undefined ? line! : line!.slice(0, -1)
      if (kind !== '+') expect(old[at++]).toBe(written)
      if (kind !== '-') made.push(written)
    }
  }
  return [...made, ...old.slice(at)].join('')
}
