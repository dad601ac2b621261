import { appendFile, rename, stat, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { replaceFile } from '../../test/support/bundles/bundle-file.ts'
import { scratchDirectory } from '../../test/support/service/running.ts'
import { until } from '../../test/support/until.ts'
import { type FileListener, WatchedFile } from './watched-file.ts'

/** The clock stands still: no file grows older while a test runs. */
const NOW_MS = Math.floor(Date.now() / 1000) * 1000

test('a file that nobody has written to for ten seconds is taken at the first look', async () => {
  const { path, taken, pauses, start } = await watched()
  await writeFile(path, 'whole')
  await age(path, 10)
  await start()
  expect(taken).toEqual(['whole'])
  expect(pauses.count).toBe(0)
})

test('one that is younger is taken when two looks agree', async () => {
  const { path, taken, pauses, start } = await watched()
  await writeFile(path, 'whole')
  await age(path, 9.9)
  await start()
  expect(taken).toEqual(['whole'])
  expect(pauses.count).toBe(1)
})

test('one from the future is young', async () => {
  const { path, taken, pauses, start } = await watched()
  await writeFile(path, 'whole')
  await age(path, -3600)
  await start()
  expect(taken).toEqual(['whole'])
  expect(pauses.count).toBe(1)
})

test('one that grows between the looks is taken when it is whole, and not before', async () => {
  const { path, taken, pauses, start } = await watched()
  await writeFile(path, 'a')
  pauses.inEach.push(...[() => appendFile(path, 'b'), () => appendFile(path, 'c'), async () => {}])
  await start()
  expect(taken).toEqual(['abc'])
  expect(pauses.count).toBe(3)
})

test('one that is replaced between the looks by one at rest is looked at twice all the same', async () => {
  const { path, taken, pauses, start } = await watched()
  await writeFile(path, 'young')
  pauses.inEach.push(...[() => replaceFile(path, 'other')])
  await start()
  expect(taken).toEqual(['other'])
  expect(pauses.count).toBe(2)
})

test('one at rest is seen to be replaced by another of the same size and time', async () => {
  const { path, taken, pauses, start } = await watched()
  await writeFile(path, 'first')
  await age(path, 60)
  const { atime, mtime } = await stat(path)
  await start()
  await writeFile(`${path}.new`, 'other')
  await utimes(`${path}.new`, atime, mtime)
  await rename(`${path}.new`, path)
  await until(() => taken.at(-1) === 'other')
  expect(pauses.count).toBe(0)
})

test('one that never comes to rest is let go of when the watch is stopped', async () => {
  const { path, taken, pauses, start, stop } = await watched()
  await writeFile(path, 'a')
  const grow = (): Promise<void> => appendFile(path, 'b')
  pauses.inEach.push(grow, grow, async () => {
    await grow()
    stop()
  })
  await start()
  expect([taken, pauses.count]).toEqual([[], 3])
})

test('a watch that is stopped looks at nothing, not even when it is asked to', async () => {
  const { path, taken, start, stop, reload } = await watched()
  await replaceFile(path, 'first')
  await start()
  stop()
  await replaceFile(path, 'second')
  await reload()
  expect(taken).toEqual(['first'])
})

test('a change is seen at rest, and in a directory that others write to all the time', async () => {
  const { path, taken, start, looks } = await watched()
  await writeFile(path, 'first')
  await age(path, 60)
  await start()
  const noise = setInterval(() => void appendFile(`${path}.log`, 'a line').catch(() => {}), 5)
  onTestFinished(() => clearInterval(noise))
  const before = looks()
  await until(() => looks() >= before + 6)
  expect(taken).toEqual(['first'])
  await replaceFile(path, 'second')
  await until(() => taken.at(-1) === 'second')
  clearInterval(noise)
  await replaceFile(path, 'third')
  await until(() => taken.at(-1) === 'third')
})

interface Watched {
  readonly path: string
  readonly taken: readonly string[]
  /** What happens in the pauses between two looks at a file that is young, one thing for each. */
  readonly pauses: { readonly inEach: (() => Promise<void>)[]; count: number }
  start(): Promise<void>
  reload(): Promise<void>
  stop(): void
  looks(): number
}

/** A file that is not there yet, and what is taken from it, for as long as the test runs. */
async function watched(): Promise<Watched> {
  const path = join(await scratchDirectory(), 'file')
  const taken: string[] = []
  const pauses: Watched['pauses'] = { inEach: [], count: 0 }
  const listener: FileListener = {
    onContent: (bytes) => void taken.push(bytes.toString()),
    onProblem(error) {
      throw error
    },
  }
  const settle = async (): Promise<void> => pauses.inEach[pauses.count++]?.()
  const file = new WatchedFile(path, 100, listener, settle, () => NOW_MS)
  onTestFinished(() => file.stop())
  return { path, taken, pauses, start: () => file.start(), reload: () => file.reload(), stop: () => file.stop(), looks: () => file.looks }
}

/** Written last so many seconds ago. */
function age(path: string, seconds: number): Promise<void> {
  const atS = NOW_MS / 1000 - seconds
  return utimes(path, atS, atS)
}
