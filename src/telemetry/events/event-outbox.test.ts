import { expect, test } from 'vitest'
import { until } from '../../../test/support/until.ts'
import { EventOutbox } from './event-outbox.ts'
import type { PublishedEvent } from './published-events.ts'

function outbox() {
  const batches: (readonly PublishedEvent[])[] = []
  const dropped = { count: 0 }
  const box = new EventOutbox({
    send: (events) => batches.push(events),
    onDropped: (count) => {
      dropped.count += count
    },
    wallMs: () => 0,
  })
  return { box, batches, dropped }
}

function event(i: number, filler = ''): PublishedEvent {
  return { name: 'reject', line: `{"event":"reject","i":${i},"filler":"${filler}"}` }
}

test('events of a moment are one batch, and the next one waits until that is taken', async () => {
  const { box, batches } = outbox()
  for (let i = 0; i < 3; i++) box.add(event(i))
  await until(() => batches.length === 1)
  expect(batches[0]).toHaveLength(3)
  for (let i = 0; i < 2000; i++) box.add(event(i))
  expect(batches).toHaveLength(1)
  box.noteTaken()
  await until(() => batches.length === 2)
  expect(batches[1]).toHaveLength(1001)
  expect(JSON.parse(batches[1]!.at(-1)!.line)).toMatchObject({ event: 'events_dropped', dropped: 1000, time: '1970-01-01T00:00:00.000Z' })
})

test('another thread that never takes anything costs a bounded amount of memory', () => {
  const { box, batches, dropped } = outbox()
  box.add(event(0))
  box.flush()
  for (let i = 0; i < 10_000; i++) box.add(event(i, 'x'.repeat(10_000)))
  box.flush()
  expect(batches[1]!.reduce((sum, { line }) => sum + line.length, 0)).toBeLessThan(140 * 1024)
  expect(batches[1]!.length - 1 + dropped.count).toBe(10_000)
})

test('an urgent event finds room behind a flood of others, and a flood of urgent ones is bounded too', () => {
  const { box, batches, dropped } = outbox()
  for (let i = 0; i < 2000; i++) box.add(event(i))
  box.add({ name: 'redis_unavailable', line: '{}' }, true)
  box.flush()
  expect(batches[0]!.filter(({ name }) => name === 'redis_unavailable')).toHaveLength(1)
  for (let i = 0; i < 5000; i++) box.add(event(i), true)
  expect(dropped.count).toBe(1000 + 3000)
})
