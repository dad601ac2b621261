import { expect, onTestFinished, test } from 'vitest'
import { until } from '../../../test/support/until.ts'
import { ConnectionQueue } from './backend.ts'

class Seeker {
  refusal: string | undefined

  onNoRoom(detail: string): void {
    this.refusal = detail
  }
}

test('one beyond the bound on its length is refused, in a turn of its own, and those that wait stay', async () => {
  const { queue, lengths } = newQueue(600_000)
  const seekers = Array.from({ length: 1001 }, () => new Seeker())
  for (const seeker of seekers) queue.add(seeker)
  const last = seekers.at(-1)!
  expect([last.refusal, lengths.at(-1)]).toEqual([undefined, 1000])
  await until(() => last.refusal !== undefined)
  expect(last.refusal).toContain('1000 requests wait')
  expect(seekers.slice(0, -1).every(({ refusal }) => refusal === undefined)).toBe(true)
  queue.serve(seekers[0]!)
  expect([queue.first === seekers[1], lengths.at(-1)]).toEqual([true, 999])
})

test('who has left hears nothing more, not even of a refusal', async () => {
  const { queue, lengths } = newQueue(1)
  const [leaver, stayer] = [new Seeker(), new Seeker()]
  queue.add(leaver)
  queue.add(stayer)
  queue.remove(leaver)
  await until(() => stayer.refusal !== undefined)
  expect([leaver.refusal, queue.first, lengths.at(-1)]).toEqual([undefined, undefined, 0])
})

function newQueue(waitMs: number): { queue: ConnectionQueue<Seeker>; lengths: number[] } {
  const lengths: number[] = []
  const queue = new ConnectionQueue<Seeker>(waitMs, { onQueueLength: (count) => void lengths.push(count), onQueueWait() {} })
  onTestFinished(() => queue.clear())
  return { queue, lengths }
}
