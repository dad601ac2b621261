import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { scratchDirectory } from '../../../test/support/service/running.ts'
import { LogFile } from './logs/log-file.ts'
import { UnreadableLines } from './logs/logged-request.ts'
import { LogSource, mergeLogs } from './merge-logs.ts'

test('requests of the same time come in the order of their logs', async () => {
  const directory = await scratchDirectory()
  const files = await Promise.all(
    ['a', 'b', 'c', 'd'].map(async (name) => {
      const path = join(directory, name)
      const lines = [1, 1, 2, 2, 3].map((time, i) => `{"time":${time},"method":"GET","uri":"/${time}${name}${i}"}\n`)
      await writeFile(path, lines.join(''))
      return new LogFile(path, 'edge replay …')
    }),
  )
  const sources = files.map((file, i) => new LogSource(file, i, { requests: 2, characters: 1000 }, new UnreadableLines()))
  const merged: string[] = []
  await mergeLogs(sources, ({ uri }) => void merged.push(uri))
  expect(merged).toHaveLength(20)
  expect(merged).toEqual(merged.toSorted())
})
