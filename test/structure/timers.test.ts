import { expect, test } from 'vitest'
import { codeWords, readText, tableRows } from '../docs/markdown.ts'
import { sourceFiles } from './source-imports.ts'

// Timers that fire again and again: intervals, and timeouts that are kept in a field or returned, because whoever arms one again and again must be
// able to clear it. Programs that end by themselves, and the trial backend, are not instances.
const TIMER = /\bsetInterval\(|(?:this\.#\w+ (?:\?\?)?= |\breturn )setTimeout\(/
const NOT_INSTANCES = /^src\/(?:cli|fake-llm)\//
/** How often an instance with two workers and everything switched on may be woken while nobody asks it anything. */
const MOST_PER_SECOND = 10
const WORKERS = 2
/** A bundle, a certificate and its key, and one more. */
const FILES = 4

interface Row {
  readonly file: string
  readonly thread: string
  readonly interval: string
  readonly runs: string
}

test('docs/internals.md names every timer of an instance', () => {
  const found = sourceFiles()
    .map((file) => `src/${file}`)
    .filter((file) => !NOT_INSTANCES.test(file) && TIMER.test(readText(file)))
  expect(
    rows()
      .map(({ file }) => file)
      .toSorted(),
  ).toEqual(found.toSorted())
})

test('a timer that does not rest has its interval in the source, and one that does says while what it runs', () => {
  for (const { file, interval, runs } of rows()) {
    expect([file, runs]).toEqual([file, expect.stringMatching(/^(?:always$|with |while )/)])
    expect([file, interval]).toEqual([file, expect.stringMatching(runs.startsWith('while ') ? /^$/ : /^\d+ ms$/)])
    if (interval === '' || file === 'src/bundle/bundle-url.ts') continue
    const digits = Number.parseInt(interval, 10)
    const spellings = [String(digits), digits.toLocaleString('en').replaceAll(',', '_'), `SAMPLE_RANGES['15m'].intervalMs`]
    expect([file, spellings.some((spelling) => readText(file).includes(spelling))]).toEqual([file, true])
  }
})

test('an idle instance is seldom woken', () => {
  const perSecond = rows()
    .filter(({ runs }) => !runs.startsWith('while '))
    .map((row) => (timersOf(row) * 1000) / Number.parseInt(row.interval, 10))
    .reduce((sum, each) => sum + each)
  expect(perSecond).toBeGreaterThan(0)
  expect(perSecond).toBeLessThan(MOST_PER_SECOND)
})

function timersOf({ file, thread }: Row): number {
  if (file === 'src/files/watched-file.ts') return FILES
  return { main: 1, 'first worker': 1, 'each worker': WORKERS, all: WORKERS + 1 }[thread]!
}

function rows(): readonly Row[] {
  const table = tableRows(readText('docs/internals.md'), ['Where', 'Thread', 'Interval', 'Runs', 'Why'])
  return table.map(([where, thread, interval, runs]) => ({
    file: codeWords(where!)[0]!,
    thread: thread!,
    interval: interval!,
    runs: runs!,
  }))
}
