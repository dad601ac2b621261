import { join } from 'node:path'
import { test } from 'vitest'
import { expectOneWinner, expectOneWinnerEachRound } from '../support/state/lock-rivals.ts'
import { expectWholeRecords } from '../support/state/saves-under-writes.ts'
import { newFolder } from '../support/state/state.ts'

test('a lock goes to exactly one of twenty processes that start at once over a dead one', async () => {
  await expectOneWinner(join(await newFolder(), 'state'), 20)
})

test('a lock goes to exactly one of many in one process, a hundred times over', async () => {
  await expectOneWinnerEachRound(join(await newFolder(), 'state'), 100)
})

test('a thousand saves while threads write never have half of a record', async () => {
  await expectWholeRecords(join(await newFolder(), 'state'), 1000)
})
