import { describe, expect, test } from 'vitest'
import { sized } from '../../../test/support/run/property-runs.ts'
import { newGate, runThread } from '../../../test/support/threads/threads.ts'
import { MetricMemory, newMetricBuffer, OVERFLOW_CELL } from './metric-memory.ts'

describe('what threads count', () => {
  test('is in one cell for all of them, and summed by whoever is asked', () => {
    const [one, two, three] = newMemories(3)
    const cell = one!.cellOf('metric', ['a'])
    expect([two!.cellOf('metric', ['a']), three!.cellOf('metric', ['a'])]).toEqual([cell, cell])
    one!.own[cell]! += 1
    two!.own[cell]! += 2
    three!.own[cell]! += 4
    expect([one!.sum(cell), two!.sum(cell), three!.sum(cell)]).toEqual([7, 7, 7])
  })

  test('is seen under its name by those who never counted it, in the order in which it was first counted', () => {
    const [one, two, asked] = newMemories(3)
    const b = one!.cellOf('metric', ['b', 'x'])
    one!.cellOf('another', [])
    const a = two!.cellOf('metric', ['a', 'é"\n'])
    expect(asked!.entriesOf('metric')).toEqual([
      { values: ['b', 'x'], cell: b },
      { values: ['a', 'é"\n'], cell: a },
    ])
    expect(asked!.entriesOf('unknown')).toEqual([])
    const c = one!.cellOf('metric', ['c', 'z'])
    expect(asked!.entriesOf('metric').at(-1)).toEqual({ values: ['c', 'z'], cell: c })
  })

  test('has as many cells as it asked for, and nobody else counts in them', () => {
    const [memory] = newMemories(1)
    const cells = [memory!.cellOf('h', ['1'], 10), memory!.cellOf('h', ['2'], 3), memory!.cellOf('h', ['3'])]
    expect(cells[1]! - cells[0]!).toBeGreaterThanOrEqual(10)
    expect(cells[2]! - cells[1]!).toBeGreaterThanOrEqual(3)
  })

  test('is registered once, however many threads do so in the same moment', async () => {
    const [buffer, names] = [newMetricBuffer(5), Array.from({ length: sized(500, 2000) }, (_, i) => `name ${i}`)]
    const gate = newGate(4)
    const threads = [1, 2, 3, 4].map((lane) => {
      // Two of them begin at the other end.
      return runThread('registering-thread', { buffer, lane, gate, names: lane % 2 === 0 ? names : names.toReversed() })
    })
    await Promise.all(threads)
    const asked = new MetricMemory(buffer, 0)
    const entries = asked.entriesOf('metric')
    expect(entries.map(({ values }) => values[0]!).sort()).toEqual([...names].sort())
    expect(new Set(entries.map(({ cell }) => cell)).size).toBe(names.length)
    expect(entries.filter(({ cell }) => asked.sum(cell) !== 4)).toEqual([])
  })
})

describe('where there is no room left', () => {
  const LANE_CELLS = 128 * 1024

  test('for cells, what is new is counted in one cell, and what is known goes on', () => {
    const [one, two] = newMemories(2)
    const known = one!.cellOf('known', [])
    for (let i = 0; one!.cellOf('large', [String(i)], 10_000) !== OVERFLOW_CELL; i++) expect(i).toBeLessThan(LANE_CELLS / 10_000)
    const fitting = two!.cellOf('small', [])
    expect(fitting).toBeGreaterThan(known)
    expect(two!.cellOf('large', ['too late'], 10_000)).toBe(OVERFLOW_CELL)
    expect(two!.cellOf('known', [])).toBe(known)
    two!.own[OVERFLOW_CELL]! += 1
    expect([one!.sum(OVERFLOW_CELL), one!.sum(known)]).toEqual([1, 0])
  })

  test('for names too', () => {
    const [memory] = newMemories(1)
    // More than half of the room.
    const long = (letter: string): string => letter.repeat(9 * 1024 * 1024)
    const cells = [long('a'), long('b'), 'short'].map((name) => memory!.cellOf('metric', [name]))
    expect(cells[1]).toBe(OVERFLOW_CELL)
    expect(new Set(cells).size).toBe(3)
  })
})

describe('a thread that dies', () => {
  test('in the middle of registering: nothing of it is seen, and the next one can', async () => {
    const buffer = newMetricBuffer(3)
    await runThread('registering-thread', { buffer, lane: 1, gate: newGate(1), names: ['whole'], dies: true })
    const [supervisor, other] = [new MetricMemory(buffer, 0), new MetricMemory(buffer, 2)]
    expect(new Int32Array(buffer, 0, 1)[0]).toBe(2) // it holds the lock
    supervisor.forgetWorker(2, [])
    expect(new Int32Array(buffer, 0, 1)[0]).toBe(2)
    supervisor.forgetWorker(1, [])
    const cell = other.cellOf('metric', ['next'])
    other.own[cell]! += 1
    expect(supervisor.entriesOf('metric').map(({ values, cell }) => [values[0], supervisor.sum(cell)])).toEqual([
      ['whole', 1],
      ['next', 1],
    ])
  })

  test('leaves what it counted and takes what it measured', () => {
    const [supervisor, one, two] = newMemories(3)
    const [counter, gauge] = [one!.cellOf('counter', []), one!.cellOf('gauge', ['x'])]
    for (const memory of [one!, two!]) {
      memory.own[counter]! += 5
      memory.own[gauge] = 3
    }
    supervisor!.forgetWorker(1, ['gauge', 'never measured'])
    expect([supervisor!.sum(counter), supervisor!.sum(gauge)]).toEqual([10, 3])
  })
})

function newMemories(lanes: number): MetricMemory[] {
  const buffer = newMetricBuffer(lanes)
  return Array.from({ length: lanes }, (_, lane) => new MetricMemory(buffer, lane))
}
