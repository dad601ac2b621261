import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import type { BundleInfo } from '../../policy/plan.ts'
import { Activation } from './activation.ts'

const CONTENT = {
  bundle: { version: 1, policyCount: 0, prices: undefined, callers: undefined, routing: undefined, usage: undefined, pieces: [] },
  info: {} as BundleInfo,
  sincesMs: new Float64Array(),
}

describe('a bundle', () => {
  test('holds when every worker has reported, and not before', async () => {
    const { activation, begin, holding } = setUp()
    const done = begin([1, 2])
    activation.note(1, 1, undefined)
    expect(holding()).toBe(0)
    activation.note(2, 1, undefined)
    expect(holding()).toBe(1)
    await done
  })

  test('does not count reports of another one, nor two of one worker', async () => {
    const { activation, begin, holding } = setUp()
    const first = begin([1, 2])
    for (const worker of [1, 2]) activation.note(worker, 1, undefined)
    await first
    const second = begin([1, 2])
    for (const worker of [1, 2]) activation.note(worker, 1, undefined)
    for (let i = 0; i < 2; i++) activation.note(1, 2, undefined)
    expect(holding()).toBe(1)
    activation.note(2, 2, undefined)
    await second
    expect(holding()).toBe(2)
  })

  test('that one worker cannot make ready holds nowhere, and the next one is another', async () => {
    const { activation, begin, holding, told } = setUp()
    const bad = begin([1, 2])
    activation.note(1, 1, undefined)
    activation.note(2, 1, 'it cannot be compiled: because')
    await expect(bad).rejects.toThrow('it cannot be compiled: because')
    expect(holding()).toBe(0)
    expect(activation.join(3)).toEqual([])
    const good = begin([1, 2])
    for (const worker of [1, 2]) activation.note(worker, 2, undefined)
    await good
    expect([holding(), told]).toEqual([2, [1, 2]])
  })

  test('holds at once where there is nobody to wait for', async () => {
    const { begin, holding } = setUp()
    await begin([])
    expect(holding()).toBe(1)
  })
})

describe('a worker', () => {
  test('that leaves before it has reported is waited for in the person of its successor', async () => {
    const { activation, begin, holding } = setUp()
    const done = begin([1, 2])
    activation.note(1, 1, undefined)
    activation.leave(2)
    expect(holding()).toBe(0)
    expect(activation.join(2).map(({ generation }) => generation)).toEqual([1])
    activation.note(2, 1, undefined)
    await done
    expect(holding()).toBe(1)
  })

  test('that leaves after it has reported is not waited for', async () => {
    const { activation, begin, holding } = setUp()
    const done = begin([1, 2])
    activation.note(1, 1, undefined)
    activation.leave(1)
    activation.note(2, 1, undefined)
    await done
    expect(holding()).toBe(1)
  })

  test('that leaves before it has reported, and its successors too: it is the bundle, which holds nowhere', async () => {
    const { activation, begin, holding } = setUp()
    const done = begin([1])
    for (let life = 0; life < 3; life++) {
      activation.leave(1)
      activation.join(1)
    }
    await expect(done).rejects.toThrow('workers died while compiling it')
    expect([holding(), activation.join(1)]).toEqual([0, []])
  })

  test('that joins is given what holds and what comes, and is waited for', async () => {
    const { activation, begin, holding } = setUp()
    const first = begin([1])
    activation.note(1, 1, undefined)
    await first
    const second = begin([1])
    expect(activation.join(2).map(({ generation }) => generation)).toEqual([1, 2])
    activation.note(1, 2, undefined)
    expect(holding()).toBe(1)
    // What holds is no news of it.
    activation.note(2, 1, undefined)
    expect(holding()).toBe(1)
    activation.note(2, 2, undefined)
    await second
    expect(holding()).toBe(2)
  })

  test('that joins when nothing comes is given what holds', async () => {
    const { activation, begin } = setUp()
    expect(activation.join(1)).toEqual([])
    await begin([])
    expect(activation.join(2).map(({ generation }) => generation)).toEqual([1])
  })

  test('that cannot make ready what holds cannot serve, and changes nothing for the others', async () => {
    const { activation, begin, holding } = setUp()
    const first = begin([1])
    expect(activation.note(1, 1, undefined)).toBe(true)
    await first
    const second = begin([1])
    activation.join(2)
    expect(activation.note(2, 1, 'it cannot be compiled: because')).toBe(false)
    expect(activation.note(1, 2, undefined)).toBe(true)
    expect(holding()).toBe(1)
    activation.leave(2)
    activation.join(2)
    expect(activation.note(2, 1, undefined)).toBe(true)
    expect(activation.note(2, 2, undefined)).toBe(true)
    await second
    expect(holding()).toBe(2)
  })

  test('that left and came back has to report again', async () => {
    const { activation, begin, holding } = setUp()
    const done = begin([1, 2])
    activation.note(1, 1, undefined)
    activation.join(1)
    activation.note(2, 1, undefined)
    expect(holding()).toBe(0)
    activation.note(1, 1, undefined)
    await done
  })
})

describe('a worker that never reports', () => {
  beforeEach(() => void vi.useFakeTimers())
  afterEach(() => void vi.useRealTimers())

  test('is told of after half a minute, it alone, and again if its successor does no better', async () => {
    const { activation, begin, holding, stuck } = setUp()
    const done = begin([1, 2])
    activation.note(2, 1, undefined)
    vi.advanceTimersByTime(29_999)
    expect(stuck).toEqual([])
    vi.advanceTimersByTime(1)
    expect([stuck, holding()]).toEqual([[1], 0])
    for (let life = 2; life <= 3; life++) {
      activation.leave(1)
      activation.join(1)
      vi.advanceTimersByTime(30_000)
      expect(stuck).toHaveLength(life)
    }
    activation.leave(1)
    await expect(done).rejects.toThrow('workers died while compiling it')
    expect(holding()).toBe(0)
  })

  test('is no worry once its bundle holds or is refused', async () => {
    const { activation, begin, stuck } = setUp()
    const first = begin([1])
    activation.note(1, 1, undefined)
    await first
    const second = begin([1, 2])
    activation.note(1, 2, 'no')
    await expect(second).rejects.toThrow('no')
    vi.advanceTimersByTime(60_000)
    expect(stuck).toEqual([])
  })
})

function setUp() {
  const word = new Int32Array(new SharedArrayBuffer(4))
  const [stuck, told]: [number[], number[]] = [[], []]
  const activation = new Activation(word, (worker) => stuck.push(worker))
  const begin = (workers: number[]): Promise<void> => activation.begin(CONTENT, workers, ({ generation }) => void told.push(generation))
  return { activation, begin, stuck, told, holding: () => word[0] }
}
