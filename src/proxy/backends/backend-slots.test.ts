import { expect, test } from 'vitest'
import { acquire } from '../../memory/shared-lock.ts'
import { BACKEND_SLOTS, BackendSlots, forgetBackends, type NamedBackend, newBackendsBuffer, placesEach } from './backend-slots.ts'

const WORKERS = 3

function backend(name: string, url = `https://${name}.example`): NamedBackend {
  return { name, url: new URL(url) }
}

function backends(count: number, prefix = 'b'): NamedBackend[] {
  return Array.from({ length: count }, (_, i) => backend(`${prefix}${i}`))
}

function openSlots() {
  const buffer = newBackendsBuffer(WORKERS)
  return { buffer, workers: Array.from({ length: WORKERS }, (_, i) => new BackendSlots(buffer, i + 1)) }
}

test('all workers find a backend in the same slot, in whatever order they claim', () => {
  const { workers } = openSlots()
  const [first, second] = [workers[0]!.claim([backend('a'), backend('b')], 0), workers[1]!.claim([backend('b'), backend('a')], 1)]
  expect([...second].sort()).toEqual([...first].sort())
  expect(new Set(first.values()).size).toBe(2)
  expect(workers[2]!.slotOf(backend('b'))).toBe(first.get('b'))
})

test('a backend keeps its slot from bundle to bundle; with another name or URL it is another backend', () => {
  const { workers } = openSlots()
  const [slots] = workers
  const kept = slots!.claim([backend('a'), backend('b')], 0).get('a')
  expect(slots!.claim([backend('c'), backend('a')], 1).get('a')).toBe(kept)
  expect(slots!.claim([backend('a', 'https://other.example')], 2).get('a')).not.toBe(kept)
  expect(slots!.slotOf(backend('c', 'https://a.example'))).toBeUndefined()
})

test('as many as there are slots fit at a time, and the next bundle may have as many others', () => {
  const { workers } = openSlots()
  const [slots] = workers
  const first = slots!.claim(backends(BACKEND_SLOTS), 0)
  const second = slots!.claim(backends(BACKEND_SLOTS, 'c'), 1)
  const numbers = new Set([...first.values(), ...second.values()])
  expect(numbers.size).toBe(2 * BACKEND_SLOTS)
  expect(() => slots!.claim(backends(BACKEND_SLOTS + 1), 2)).toThrow('at most 64 backends')
})

test('the backend that has been in no bundle for the longest time loses its slot first', () => {
  const { workers } = openSlots()
  const [slots] = workers
  slots!.claim([backend('old')], 0)
  slots!.claim(backends(BACKEND_SLOTS - 2), 1)
  slots!.claim([backend('young')], 2)
  slots!.claim([...backends(BACKEND_SLOTS - 2), backend('new')], 3)
  expect([slots!.slotOf(backend('old')), slots!.slotOf(backend('young')) === undefined]).toEqual([undefined, false])
})

test('the number of a slot that another backend has now opens nothing', () => {
  const { workers } = openSlots()
  const [slots] = workers
  const lost = slots!.claim([backend('a')], 0).get('a')!
  slots!.claim(backends(BACKEND_SLOTS), 1)
  expect([slots!.lock(lost), slots!.copyOf(lost)]).toEqual([undefined, undefined])
  // It left no lock behind.
  const now = slots!.claim(backends(BACKEND_SLOTS), 2)
  for (const slot of now.values()) slots!.unlock(slots!.lock(slot)!)
})

test('a backend that hangs takes places of its own, and none of the others', () => {
  const { workers } = openSlots()
  const [one, two] = workers.map((slots) => {
    const numbers = slots.claim([backend('hung'), backend('well')], 0)
    return { hung: slots.placesOf(numbers.get('hung')!, 2), well: slots.placesOf(numbers.get('well')!, 2) }
  })
  expect([one!.hung.take(), two!.hung.take(), one!.hung.take()]).toEqual([true, true, false])
  expect([one!.well.take(), two!.well.take(), two!.well.take()]).toEqual([true, true, false])
  expect([one!.hung.taken, two!.well.taken]).toEqual([2, 2])
})

test('connections of an earlier backend of the slot count until they are closed, and never below zero', () => {
  const { workers } = openSlots()
  const [slots] = workers
  const old = slots!.placesOf(slots!.claim([backend('a')], 0).get('a')!, 2)
  expect(old.take()).toBe(true)
  const next = [...slots!.claim(backends(BACKEND_SLOTS), 1).values()]
    .map((slot) => slots!.placesOf(slot, 2))
    .find(({ taken }) => taken > 0)!
  expect([next.take(), next.take()]).toEqual([true, false])
  old.giveBack()
  expect([next.take(), next.taken]).toEqual([true, 2])
})

test('the places are shared out in equal parts, and every backend has one', () => {
  expect([placesEach(100, 3, false), placesEach(100, 3, true), placesEach(2, 64, true), placesEach(500, 1, false)]).toEqual([
    33, 25, 1, 500,
  ])
})

test('a dead worker leaves no lock and no place behind', () => {
  const { buffer, workers } = openSlots()
  const [dead, alive] = workers
  const number = dead!.claim([backend('a')], 0).get('a')!
  expect(dead!.placesOf(number, 1).take()).toBe(true)
  alive!.placesOf(number, 9).take()
  dead!.lock(number)
  acquire(dead!.words, 0, 2)
  forgetBackends(buffer, 1)
  expect(alive!.placesOf(number, 9).taken).toBe(1)
  expect(alive!.claim([backend('a'), backend('b')], 1).get('a')).toBe(number)
  alive!.unlock(alive!.lock(number)!)
})
