import { readFile, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { MAX_UNKNOWN_BYTES, readState } from '../../src/store/state/state-read.ts'
import { expectOneWinner, expectOneWinnerEachRound } from '../support/state/lock-rivals.ts'
import { expectWholeRecords } from '../support/state/saves-under-writes.ts'
import { sectionBytes } from '../support/state/sections.ts'
import { bucketRecord, clockAt, newFolder, save, tableOf } from '../support/state/state.ts'

const CLOCK = clockAt(1000, Date.UTC(2026, 0, 15, 12))
/** They take a minute on a quiet machine, and many on a busy one. */
const LONG = { timeout: 1_800_000 }
const HOLE_BYTES = 8 * MAX_UNKNOWN_BYTES

test('a lock goes to exactly one of twenty processes that start at once over a dead one', LONG, async () => {
  await expectOneWinner(join(await newFolder(), 'state'), 20)
})

test('a lock goes to exactly one of many in one process, a hundred times over', LONG, async () => {
  await expectOneWinnerEachRound(join(await newFolder(), 'state'), 100)
})

test('a thousand saves while threads write never have half of a record', LONG, async () => {
  await expectWholeRecords(join(await newFolder(), 'state'), 1000)
})

test('a damaged file is read in bounded memory', async () => {
  const path = join(await newFolder(), 'state')
  await save(path, tableOf(64, [bucketRecord(1, 50, 1000)], 1000), CLOCK)
  // All of a large hole is one section.
  const header = sectionBytes(999, Buffer.alloc(0))
  header.writeUInt32LE(HOLE_BYTES, 4)
  await writeFile(path, Buffer.concat([(await readFile(path)).subarray(0, 40), header]))
  await truncate(path, 40 + 24 + HOLE_BYTES + 24 + 32)
  const before = process.memoryUsage().arrayBuffers
  expect(await readState(path, CLOCK)).toMatchObject({ kind: 'damaged', reason: 'its checksum is wrong: it was truncated or changed' })
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(HOLE_BYTES / 2)
})
