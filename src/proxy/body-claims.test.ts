import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { CounterFamily } from '../telemetry/metrics/counter-family.ts'
import { MetricMemory, newMetricBuffer } from '../telemetry/metrics/metric-memory.ts'
import { type BodyClaim, BodyClaims } from './body-claims.ts'
import { BodyMemory, newBodyMemoryBuffer } from './body-memory.ts'

const KIB = 1024
const LOOK_MS = 100

beforeEach(() => void vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] }))
afterEach(() => void vi.useRealTimers())

describe('the memory of several workers', () => {
  test('is one: what one holds, another cannot have', () => {
    const { workers } = newWorkers(2, 100 * KIB)
    const claim = workers[0]!.open(60 * KIB)!
    expect(workers[1]!.open(60 * KIB)).toBeUndefined()
    expect(workers[1]!.open(40 * KIB)).toBeDefined()
    claim.release()
    expect(workers[1]!.open(60 * KIB)).toBeDefined()
  })

  test('released twice is released once', () => {
    const { workers } = newWorkers(1, 100 * KIB)
    const claim = workers[0]!.open(60 * KIB)!
    workers[0]!.open(40 * KIB)
    claim.release()
    claim.release()
    expect(workers[0]!.open(61 * KIB)).toBeUndefined()
    expect(workers[0]!.open(60 * KIB)).toBeDefined()
  })

  test('that is short ends the slowest upload of all, whichever worker has it, and no more than it takes', () => {
    const { workers, clock } = newWorkers(3, 300 * KIB)
    const [first, second, third] = workers as [BodyClaims, BodyClaims, BodyClaims]
    const ended: string[] = []
    const uploads = { a: first.open(100 * KIB)!, b: second.open(100 * KIB)!, c: third.open(100 * KIB)! }
    endInto(ended, uploads)
    clock.nowMs += 1000
    uploads.a.note(300)
    uploads.b.note(200)
    uploads.c.note(400)
    let granted: BodyClaim | undefined
    first.wait(50 * KIB, (claim) => {
      granted = claim
    })
    clock.nowMs += 1000
    look()
    expect(ended).toEqual(['b'])
    expect(granted).toBeDefined()
  })

  test('is not taken from an upload that is fast, nor from one that has just begun', () => {
    const { workers, clock } = newWorkers(2, 200 * KIB)
    const [first, second] = workers as [BodyClaims, BodyClaims]
    const ended: string[] = []
    const uploads = { fast: first.open(100 * KIB)!, fresh: second.open(100 * KIB)! }
    endInto(ended, uploads)
    clock.nowMs += 900
    uploads.fast.note(50 * KIB)
    let granted: BodyClaim | undefined
    second.wait(100 * KIB, (claim) => {
      granted = claim
    })
    look()
    expect([ended, granted]).toEqual([[], undefined])
    clock.nowMs += 200
    look()
    expect(ended).toEqual(['fresh'])
    expect(granted).toBeDefined()
  })

  test('that a dead worker held is free, with its lock', () => {
    const { workers, buffer } = newWorkers(2, 100 * KIB)
    workers[0]!.open(100 * KIB)
    // It died in the middle of a claim.
    Atomics.store(new Int32Array(buffer), 0, 2)
    new BodyMemory(buffer, 0, 0).forgetWorker(1)
    expect(workers[1]!.open(100 * KIB)).toBeDefined()
  })
})

describe('what becomes free', () => {
  test('goes to whoever needs least, new or begun', () => {
    const { workers } = newWorkers(1, 100 * KIB)
    const claims = workers[0]!
    const granted: string[] = []
    const holder = claims.open(90 * KIB)!
    const begun = claims.open(10 * KIB)!
    claims.wait(70 * KIB, () => granted.push('large'))
    claims.wait(20 * KIB, () => granted.push('small'))
    begun.growLater(40 * KIB, () => granted.push('begun'))
    holder.release()
    expect(granted).toEqual(['small', 'begun'])
    begun.release()
    expect(granted).toEqual(['small', 'begun', 'large'])
  })

  test('waits for nobody who called it off', () => {
    const { workers } = newWorkers(1, 100 * KIB)
    const claims = workers[0]!
    const granted: string[] = []
    const holder = claims.open(100 * KIB)!
    claims.wait(20 * KIB, () => granted.push('gone'))()
    claims.wait(90 * KIB, () => granted.push('there'))
    holder.release()
    expect(granted).toEqual(['there'])
  })
})

/** Every worker looks after its uploads. */
function look(): void {
  // One look tells each of the others, the next is acted upon, and with the last what became free is given out.
  vi.advanceTimersByTime(3 * LOOK_MS)
}

/** So many workers in this thread, on a clock that stands still. */
function newWorkers(count: number, bytes: number): { workers: BodyClaims[]; clock: { nowMs: number }; buffer: SharedArrayBuffer } {
  const buffer = newBodyMemoryBuffer(count)
  const metrics = newMetricBuffer(count + 1)
  const clock = { nowMs: 1_000_000 }
  const workers = Array.from({ length: count }, (_, i) => {
    const memory = new MetricMemory(metrics, i + 1)
    return new BodyClaims({
      memory: new BodyMemory(buffer, i + 1, bytes),
      nowMs: () => clock.nowMs,
      heldBytes: new CounterFamily(memory, 'edge_proxy_body_memory_bytes').series(),
      waitingUploads: new CounterFamily(memory, 'edge_proxy_waiting_uploads').series(),
    })
  })
  return { workers, clock, buffer }
}

function endInto(ended: string[], uploads: Readonly<Record<string, BodyClaim>>): void {
  for (const [name, claim] of Object.entries(uploads)) {
    claim.onEnd = () => {
      ended.push(name)
      claim.release()
    }
  }
}
