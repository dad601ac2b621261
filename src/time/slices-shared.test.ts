import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { WorkSlices } from './slices.ts'

/** Work of so many steps, on a clock that each step moves on by so much. */
class Bench {
  nowMs = 0
  readonly slices = new WorkSlices(() => this.nowMs)
  /** Which work each step belonged to. */
  readonly steps: string[] = []

  add(name: string, steps: number, stepMs: number): void {
    let left = steps
    this.slices.add({
      step: () => {
        this.steps.push(name)
        this.nowMs += stepMs
        return --left > 0
      },
    })
  }

  /** The steps of each turn from now on, until a turn has none. */
  async turns(): Promise<string[][]> {
    const turns: string[][] = [this.steps.splice(0)]
    for (;;) {
      await nextTurn()
      if (this.steps.length === 0) return turns
      turns.push(this.steps.splice(0))
    }
  }
}

test('work takes at most one slice of 2 ms in a turn of the event loop', async () => {
  const bench = new Bench()
  bench.add('a', 10, 0.5)
  expect((await bench.turns()).map(({ length }) => length)).toEqual([4, 4, 2])
})

test('small work is done at once', () => {
  const bench = new Bench()
  for (const name of 'abc') bench.add(name, 1, 0.1)
  expect(bench.steps).toEqual(['a', 'b', 'c'])
})

test('any number of works share the slice of a turn, step by step', async () => {
  const bench = new Bench()
  for (const name of 'abc') bench.add(name, 4, 0.5)
  const turns = await bench.turns()
  expect(turns.map(({ length }) => length)).toEqual([4, 4, 4])
  expect(turns.slice(1).flat().join('')).toBe('bcbcbcbc')
})

test('twenty works that each fill a slice wait for twenty turns', async () => {
  const bench = new Bench()
  for (let i = 0; i < 20; i++) bench.add(String(i), 1, 2)
  expect((await bench.turns()).map(({ length }) => length)).toEqual(Array(20).fill(1))
})

test('a turn that has begun leaves no time for what comes later in it', async () => {
  const bench = new Bench()
  bench.add('a', 1, 1.5)
  bench.add('b', 2, 0.5)
  bench.add('c', 1, 0.5)
  expect(await bench.turns()).toEqual([
    ['a', 'b'],
    ['b', 'c'],
  ])
})

test('a lone piece of work asks for no turn of its own, and what it spent still counts', async () => {
  const bench = new Bench()
  bench.add('a', 1, 0.5)
  await nextTurn()
  bench.add('b', 4, 0.5)
  expect(await bench.turns()).toEqual([['a', 'b', 'b', 'b'], ['b']])
})

test('work that is done now shares the slice with all other work', async () => {
  const bench = new Bench()
  const take = (ms: number) => (): void => {
    bench.nowMs += ms
  }
  expect([bench.slices.doNow(take(1.5)), bench.slices.doNow(take(0.5)), bench.slices.doNow(take(0))]).toEqual([true, true, false])
  bench.add('a', 1, 0)
  expect(await bench.turns()).toEqual([[], ['a']])
  expect(bench.slices.doNow(take(0))).toBe(true)
})

test('no work is done now while other work waits', async () => {
  const bench = new Bench()
  bench.add('a', 5, 1)
  await nextTurn()
  expect(bench.slices.doNow(() => bench.steps.push('now'))).toBe(false)
  expect((await bench.turns()).flat().join('')).toBe('aaaaa')
})
