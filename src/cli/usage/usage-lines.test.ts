import { execFileSync } from 'node:child_process'
import { symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { scratchDirectory } from '../../../test/support/service/running.ts'
import { usageLineOf } from '../../../test/support/usage/usage-files.ts'
import { UsageLines } from './usage-lines.ts'

const LINE = usageLineOf('2026-11-18T10:00:00.000Z', 1, 1)
const NAME = 'usage-2026-11-18T10-00000001-1.jsonl'

async function read(...sources: string[]): Promise<UsageLines & { count: number }> {
  const lines = new UsageLines({ fromMs: Number.NEGATIVE_INFINITY, toMs: Number.POSITIVE_INFINITY })
  let count = 0
  await lines.read(sources, () => count++)
  return Object.assign(lines, { count })
}

test('a file that is given twice, by whatever path, or with a copy, is refused: nothing counts twice', async () => {
  const [directory, copies] = [await scratchDirectory(), await scratchDirectory()]
  await writeFile(join(directory, NAME), LINE)
  await writeFile(join(copies, `${NAME}.gz`), gzipSync(LINE))
  await symlink(directory, join(copies, 'link'))
  for (const again of [`${directory}/`, join(directory, NAME), join(copies, 'link'), copies])
    await expect(read(directory, again)).rejects.toThrow(/ again, or a copy of it: give one of them, or it counts twice$/)
  expect((await read(directory)).count).toBe(1)
})

test('a torn archive is read as far as it goes, a huge line is one that cannot be read, and what is gone is said', async () => {
  const directory = await scratchDirectory()
  const whole = gzipSync(LINE)
  await writeFile(join(directory, `${NAME}.gz`), Buffer.concat([whole, whole.subarray(0, 20)]))
  await writeFile(join(directory, 'usage-2026-11-18T11-00000001-1.jsonl.gz'), gzipSync(`${' '.repeat(3_000_000)}${LINE}${LINE}`))
  await symlink(join(directory, 'nowhere'), join(directory, 'usage-2026-11-18T12-00000001-1.jsonl.gz'))
  const { count, unreadable, damaged } = await read(directory)
  expect([count, unreadable]).toEqual([2, 1])
  expect(damaged).toEqual([
    `${join(directory, NAME)}.gz: its compressed data ends early`,
    `${join(directory, 'usage-2026-11-18T12-00000001-1.jsonl.gz')}: it was removed before it could be read`,
  ])
})

test('a pipe in a directory is not waited for', async () => {
  const directory = await scratchDirectory()
  await writeFile(join(directory, NAME), LINE)
  execFileSync('mkfifo', [join(directory, 'usage-2026-11-18T11-00000001-1.jsonl')])
  expect((await read(directory)).count).toBe(1)
})
