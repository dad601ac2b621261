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

test('a dead worker leaves nothing in the counts of addresses and in kept slots', () => {
  const memory = buffer()
  const [dead, alive] = [new ConnectionSlots(memory, 1, 'admin', 8).reserved!, new ConnectionSlots(memory, 2, 'admin', 8).reserved!]
  const place = alive.placeOf('10.0.0.1')
  expect([dead.take(place), dead.take(place), alive.take(place), dead.kept.take(), alive.kept.take()]).toEqual([
    true,
    true,
    false,
    true,
    false,
  ])
  forgetSlots(memory, 1)
  expect([alive.take(place), alive.take(place), alive.take(place), alive.kept.take()]).toEqual([true, true, false, true])
  expect(alive.placeOf('10.0.0.1')).toBe(place)
})

test('which addresses share a count is the same for all workers, and nobody outside can know it', () => {
  const addresses = Array.from({ length: 1000 }, (_, i) => `10.0.${i >> 8}.${i & 255}`)
  const placesIn = (memory: SharedArrayBuffer, worker: number): number[] => {
    const { reserved } = new ConnectionSlots(memory, worker, 'admin', 32)
    return addresses.map((address) => reserved!.placeOf(address))
  }
  const memory = buffer()
  const places = placesIn(memory, 1)
  expect(placesIn(memory, 2)).toEqual(places)
  const elsewhere = placesIn(buffer(), 1)
  expect(places.filter((place, i) => place === elsewhere[i]).length).toBeLessThan(20)
  expect(new Set(places).size).toBeGreaterThan(800)
})
