import { expect, test } from 'vitest'
import { serverMemory } from '../../test/support/service/server-memory.ts'
import { newKeyMemory } from '../callers/keys/key-memory.ts'
import { forgetOpenReservations } from '../engine/open-reservations.ts'
import { BackendSlots } from '../proxy/backends/backend-slots.ts'
import { newTableBuffer } from '../store/table/table-layout.ts'
import { MetricMemory } from '../telemetry/metrics/metric-memory.ts'
import { newSharedMemory, SUPERVISOR, WorkerCleanup } from './shared-memory.ts'

test('nobody waits for what a dead worker had reserved, and still for what the others have', () => {
  const memory = newSharedMemory(newTableBuffer(64 * 1024), [1, 2], 2, serverMemory().reservations.memory, newKeyMemory(1))
  const cells = new Float64Array(memory.openReservations).fill(1)
  new WorkerCleanup(memory, new MetricMemory(memory.metrics, SUPERVISOR)).cleanUp(1)
  const left = Float64Array.from(cells)
  cells.fill(1)
  forgetOpenReservations(memory.openReservations, 1)
  expect(left).toEqual(cells)
  expect(new Set(left)).toEqual(new Set([0, 1]))
})

test('a dead worker leaves no connection and no lock at a backend', () => {
  const memory = newSharedMemory(newTableBuffer(64 * 1024), [1, 2], 2, serverMemory().reservations.memory, newKeyMemory(1))
  const [dead, alive] = [new BackendSlots(memory.backends, 1), new BackendSlots(memory.backends, 2)]
  const slot = dead.claim([{ name: 'a', url: new URL('https://a.example') }], 0).get('a')!
  expect([dead.placesOf(slot, 1).take(), alive.placesOf(slot, 1).take()]).toEqual([true, false])
  dead.lock(slot)
  new WorkerCleanup(memory, new MetricMemory(memory.metrics, SUPERVISOR)).cleanUp(1)
  expect([alive.placesOf(slot, 1).take(), alive.copyOf(slot) !== undefined]).toEqual([true, true])
})
