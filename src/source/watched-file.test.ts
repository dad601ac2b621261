import { appendFile, stat, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeEach, expect, onTestFinished, test, vi } from 'vitest'
import { replaceFile } from '../../test/support/bundles/bundle-file.ts'
import { scratchDirectory } from '../../test/support/service/running.ts'
import { until } from '../../test/support/until.ts'
import { WatchedFile } from './watched-file.ts'

/** What happens in the pauses between two looks at a file that is young, one thing for each. */
const { pauses } = vi.hoisted(() => ({ pauses: { inEach: [] as (() => Promise<void>)[], count: 0 } }))

vi.mock('node:timers/promises', async (original) => ({
  ...(await original<typeof import('node:timers/promises')>()),
  async setTimeout(_delayMs: number, _value: unknown, options?: { ref: boolean }): Promise<void> {
    if (options === undefined) return new Promise((resolve) => void setTimeout(resolve, 1)) // no pause of the file's
    await pauses.inEach[pauses.count++]?.()
  },
}))

beforeEach(() => {
  pauses.count = 0
  pauses.inEach = []
})

test('a file that nobody has written to for ten seconds is taken at the first look', async () => {
  const { path, taken, start } = await watched()
  await writeFile(path, 'whole')
  await age(path, 10.1)
  await start()
  expect(taken).toEqual(['whole'])
  expect(pauses.count).toBe(0)
})

test('one that is younger is taken when two looks agree', async () => {
  const { path, taken, start } = await watched()
  await writeFile(path, 'whole')
  await age(path, 8)
  await start()
  expect(taken).toEqual(['whole'])
  expect(pauses.count).toBe(1)
})

test('one from the future is young', async () => {
  const { path, taken, start } = await watched()
  await writeFile(path, 'whole')
  await age(path, -3600)
  await start()
  expect(taken).toEqual(['whole'])
  expect(pauses.count).toBe(1)
})

test('one that grows between the looks is taken when it is whole, and not before', async () => {
  const { path, taken, start } = await watched()
  await writeFile(path, 'a')
  pauses.inEach = [() => appendFile(path, 'b'), () => appendFile(path, 'c'), async () => {}]
  await start()
  expect(taken).toEqual(['abc'])
  expect(pauses.count).toBe(3)
})

test('one that is replaced between the looks by one at rest is looked at twice all the same', async () => {
  const { path, taken, start } = await watched()
  await writeFile(path, 'young')
  pauses.inEach = [() => replaceFile(path, 'other')]
  await start()
  expect(taken).toEqual(['other'])
  expect(pauses.count).toBe(2)
})

test('one at rest is seen to be replaced by another of the same size and time', async () => {
  const { path, taken, start } = await watched()
  await replaceFile(path, 'first')
  const { atime, mtime } = await stat(path)
  await start()
  await replaceFile(path, 'other')
  await utimes(path, atime, mtime)
  await until(() => taken.at(-1) === 'other')
  expect(pauses.count).toBe(0)
})

interface Watched {
  readonly path: string
  readonly taken: readonly string[]
  start(): Promise<void>
}

/** A file that is not there yet, and what is taken from it, for as long as the test runs. */
async function watched(): Promise<Watched> {
  const path = join(await scratchDirectory(), 'file')
  const taken: string[] = []
  const file = new WatchedFile(path, 100, {
    onContent: (bytes) => void taken.push(bytes.toString()),
    onProblem(error) {
      throw error
    },
  })
  onTestFinished(() => file.stop())
  return { path, taken, start: () => file.start() }
}

/** Written last so many seconds ago. */
function age(path: string, seconds: number): Promise<void> {
  const atS = Date.now() / 1000 - seconds
  return utimes(path, atS, atS)
}
