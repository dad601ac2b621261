import { expect, test } from 'vitest'
import { ConnectionSlots, forgetSlots, newSlotsBuffer } from './connection-slots.ts'

const buffer = (): SharedArrayBuffer => newSlotsBuffer(2)

test('workers together have no more than there are, each kind by itself', () => {
  const memory = buffer()
  const [one, two] = [new ConnectionSlots(memory, 1, 'main', 3), new ConnectionSlots(memory, 2, 'main', 3)]
  const backend = new ConnectionSlots(memory, 2, 'backend', 1)
  expect([one.take(), two.take(), one.take(), two.take(), one.take()]).toEqual([true, true, true, false, false])
  expect([backend.take(), backend.take()]).toEqual([true, false])
  one.giveBack()
  expect([two.take(), one.take()]).toEqual([true, false])
})

test('what a dead worker had is free, and it waits for nothing', () => {
  const memory = buffer()
  const [dead, alive] = [new ConnectionSlots(memory, 1, 'backend', 2), new ConnectionSlots(memory, 2, 'backend', 2)]
  expect([dead.take(), dead.take(), alive.take()]).toEqual([true, true, false])
  dead.waiting = 3
  expect([alive.isWantedElsewhere, dead.isWantedElsewhere]).toEqual([true, false])
  forgetSlots(memory, 1)
  expect([alive.isWantedElsewhere, alive.take(), alive.take(), alive.take()]).toEqual([false, true, true, false])
})
