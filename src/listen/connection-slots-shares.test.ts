import { describe, expect, test, vi } from 'vitest'
import { ConnectionShares, newSharesBuffer } from './connection-slots.ts'

describe('shares of connections', () => {
  test('are told by worker, by whoever is asked', () => {
    const [one, two, three] = newShares(3)
    for (let i = 0; i < 3; i++) two!.opened()
    one!.opened()
    two!.closed()
    for (const shares of [one!, two!, three!])
      expect([...shares.all()]).toEqual([
        [1, 1],
        [2, 2],
        [3, 0],
      ])
  })

  test('of a dead worker are gone, and the others stay', () => {
    const [one, two] = newShares(2)
    one!.opened()
    two!.opened()
    one!.forgetWorker(2)
    expect([...one!.all()]).toEqual([
      [1, 1],
      [2, 0],
    ])
  })

  test('make a worker wait that has more than its own, and nobody else', () => {
    const wait = vi.spyOn(Atomics, 'wait').mockReturnValue('timed-out')
    try {
      const [one, two] = newShares(2)
      const waitsOf = (shares: ConnectionShares): number => {
        const before = wait.mock.calls.length
        shares.opened()
        return wait.mock.calls.length - before
      }
      expect([waitsOf(one!), waitsOf(one!), waitsOf(one!)]).toEqual([0, 0, 1])
      expect([waitsOf(two!), waitsOf(two!), waitsOf(two!)]).toEqual([0, 0, 0])
      expect([waitsOf(one!), waitsOf(two!)]).toEqual([0, 0])
    } finally {
      wait.mockRestore()
    }
  })

  test('never make the only worker wait', () => {
    const wait = vi.spyOn(Atomics, 'wait').mockReturnValue('timed-out')
    try {
      const [only] = newShares(1)
      for (let i = 0; i < 100; i++) only!.opened()
      expect(wait).not.toHaveBeenCalled()
    } finally {
      wait.mockRestore()
    }
  })
})

function newShares(workers: number): ConnectionShares[] {
  const buffer = newSharesBuffer(workers)
  return Array.from({ length: workers }, (_, i) => new ConnectionShares(buffer, i + 1))
}
