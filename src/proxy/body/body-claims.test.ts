import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { CounterFamily } from '../../telemetry/metrics/metric-families.ts'
import { MetricMemory, newMetricBuffer } from '../../telemetry/metrics/metric-memory.ts'
import { type BodyClaim, BodyClaims } from './body-claims.ts'
import { BodyMemory, forgetBodies, newBodyMemoryBuffer } from './body-memory.ts'
import type { MemoryHolder, MemoryHolders } from './memory-part.ts'

const KIB = 1024
const LOOK_MS = 100
const HASH_KEY = [1, 2] as const
const ANYBODY = caller('anybody')
const ALICE = caller('alice')
const BOB = caller('bob')
const MALLORY = caller('mallory')

beforeEach(() => void vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] }))
afterEach(() => void vi.useRealTimers())

describe('the memory of several workers', () => {
  test('is one: what one holds, another cannot have', () => {
    const { workers } = newWorkers(2, 100 * KIB)
    const claim = workers[0]!.open(ANYBODY, 60 * KIB)!
    expect(workers[1]!.open(ANYBODY, 60 * KIB)).toBeUndefined()
    expect(workers[1]!.open(ANYBODY, 40 * KIB)).toBeDefined()
    claim.release()
    expect(workers[1]!.open(ANYBODY, 60 * KIB)).toBeDefined()
  })

  test('released twice is released once', () => {
    const { workers } = newWorkers(1, 100 * KIB)
    const claim = workers[0]!.open(ANYBODY, 60 * KIB)!
    workers[0]!.open(ANYBODY, 40 * KIB)
    claim.release()
    claim.release()
    expect(workers[0]!.open(ANYBODY, 61 * KIB)).toBeUndefined()
    expect(workers[0]!.open(ANYBODY, 60 * KIB)).toBeDefined()
  })

  test('that is short ends the slowest upload of all, whichever worker has it, and no more than it takes', () => {
    const { workers, clock } = newWorkers(3, 300 * KIB)
    const [first, second, third] = workers as [BodyClaims, BodyClaims, BodyClaims]
    const ended: string[] = []
    const uploads = { a: first.open(ALICE, 100 * KIB)!, b: second.open(BOB, 100 * KIB)!, c: third.open(MALLORY, 100 * KIB)! }
    endInto(ended, uploads)
    clock.nowMs += 1000
    uploads.a.note(300)
    uploads.b.note(200)
    uploads.c.note(400)
    let granted: BodyClaim | undefined
    first.wait(ANYBODY, 50 * KIB, (claim) => {
      granted = claim
    })
    clock.nowMs += 1000
    look()
    expect(ended).toEqual(['b'])
    expect(granted).toBeDefined()
  })

  test('that is short ends no more than it takes where those who wait get it at once', () => {
    const { workers, clock } = newWorkers(1, 300 * KIB)
    const ended: string[] = []
    const granted: string[] = []
    const open = (): BodyClaim => workers[0]!.open(ANYBODY, 50 * KIB)!
    endInto(ended, { a: open(), b: open(), c: open(), d: open(), e: open(), f: open() })
    clock.nowMs += 1000
    for (const name of ['first', 'second']) workers[0]!.wait(BOB, 50 * KIB, () => granted.push(name))
    look()
    expect([ended, granted]).toEqual([
      ['a', 'b'],
      ['first', 'second'],
    ])
  })

  test('is not taken from an upload that is fast, nor from one that has just begun', () => {
    const { workers, clock } = newWorkers(2, 200 * KIB)
    const [first, second] = workers as [BodyClaims, BodyClaims]
    const ended: string[] = []
    const uploads = { fast: first.open(ANYBODY, 100 * KIB)!, fresh: second.open(ANYBODY, 100 * KIB)! }
    endInto(ended, uploads)
    clock.nowMs += 900
    uploads.fast.note(50 * KIB)
    let granted: BodyClaim | undefined
    second.wait(ANYBODY, 100 * KIB, (claim) => {
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
    workers[0]!.open(ANYBODY, 100 * KIB)
    // It died in the middle of a claim: of the two parts, the second is for all bodies.
    const words = new Int32Array(buffer)
    Atomics.store(words, words.length / 2, 2)
    forgetBodies(buffer, 1)
    expect(workers[1]!.open(ANYBODY, 100 * KIB)).toBeDefined()
  })
})

describe('what becomes free', () => {
  test('goes to whoever needs least, new or begun', () => {
    const { workers } = newWorkers(1, 100 * KIB)
    const claims = workers[0]!
    const granted: string[] = []
    const holder = claims.open(ANYBODY, 90 * KIB)!
    const begun = claims.open(ANYBODY, 10 * KIB)!
    claims.wait(ANYBODY, 70 * KIB, () => granted.push('large'))
    claims.wait(ANYBODY, 20 * KIB, () => granted.push('small'))
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
    const holder = claims.open(ANYBODY, 100 * KIB)!
    claims.wait(ANYBODY, 20 * KIB, () => granted.push('gone'))()
    claims.wait(ANYBODY, 90 * KIB, () => granted.push('there'))
    holder.release()
    expect(granted).toEqual(['there'])
  })
})

// 4 MiB: 512 KiB for small bodies, of which a share has 128; a share of the other 3,584 has 896.
describe('a share', () => {
  const [ALL, BODY] = [4096 * KIB, 256 * KIB]

  test('is a quarter of what is not kept for small bodies, over all workers', () => {
    const { workers } = newWorkers(2, ALL, BODY)
    const [first, second] = workers as [BodyClaims, BodyClaims]
    const held = [first.open(MALLORY, BODY)!, second.open(MALLORY, BODY)!, first.open(MALLORY, BODY)!]
    expect(second.open(MALLORY, 129 * KIB)).toBeUndefined()
    expect(second.open(MALLORY, 128 * KIB)).toBeDefined()
    expect(second.open(ALICE, BODY)).toBeDefined()
    held[0]!.release()
    expect(second.open(MALLORY, BODY)).toBeDefined()
  })

  test('is one body where that is larger', () => {
    const { workers } = newWorkers(1, 1024 * KIB, 512 * KIB)
    const claim = workers[0]!.open(MALLORY, 512 * KIB)!
    expect(workers[0]!.open(MALLORY, 65 * KIB)).toBeUndefined()
    claim.release()
    expect(workers[0]!.open(MALLORY, 512 * KIB)).toBeDefined()
  })

  test('of the part for small bodies is a quarter too; what is beyond comes from the rest', () => {
    const { workers } = newWorkers(1, ALL, BODY)
    const claims = workers[0]!
    const open = (holders: MemoryHolders, bytes: number): number => {
      let count = 0
      while (claims.open(holders, bytes) !== undefined) count++
      return count
    }
    expect(open(MALLORY, 64 * KIB)).toBe(2 + 14)
    expect([open(ALICE, BODY), open(BOB, BODY), open(ANYBODY, BODY)]).toEqual([3, 3, 3])
    // Of the rest, 384 KiB are left.
    for (const name of ['a', 'b', 'c']) expect(open(caller(name), 128 * KIB)).toBe(name === 'a' ? 3 : 0)
    expect(['a', 'b', 'c', 'd'].map((name) => open(caller(name), 64 * KIB))).toEqual([2, 2, 2, 0])
  })

  test('that is used up keeps nobody else waiting, and nobody else has to end for it', () => {
    const { workers, clock } = newWorkers(1, ALL, BODY)
    const claims = workers[0]!
    const ended: string[] = []
    const granted: string[] = []
    const slow = claims.open(ALICE, BODY)!
    endInto(ended, { slow })
    const held = [1, 2, 3].map(() => claims.open(MALLORY, BODY)!)
    for (const claim of held) claim.complete(BODY)
    const others = [BOB, ANYBODY].flatMap((holders) => [1, 2, 3].map(() => claims.open(holders, BODY)!))
    for (const claim of others) claim.complete(BODY)
    const last = [1, 2, 3].map(() => claims.open(caller('last'), BODY)!)
    for (const claim of last) claim.complete(BODY)
    for (let i = 0; i < 10; i++) claims.wait(MALLORY, 130 * KIB, () => granted.push('mallory'))
    clock.nowMs += 6000
    look()
    expect([ended, granted]).toEqual([[], []])
    // Of the rest, 256 KiB are left: enough for one of them.
    claims.wait(BOB, 128 * KIB, () => granted.push('bob'))
    claims.wait(ALICE, 256 * KIB, () => granted.push('alice'))
    look()
    expect([ended, granted]).toEqual([['slow'], ['bob', 'alice']])
  })

  test('of an address bounds what others must end for, however many callers it makes up, in all workers', () => {
    const { workers, clock } = newWorkers(3, ALL, BODY)
    const ended: string[] = []
    const slow = Array.from({ length: 14 }, (_, i) => workers[0]!.open(caller(`slow ${i}`), BODY)!)
    endInto(ended, Object.fromEntries(Object.entries(slow)))
    clock.nowMs += 6000
    // Two shares are 1,792 KiB.
    for (let i = 0; i < 30; i++)
      workers[i % 3]!.wait([...caller(`made up ${i}`), address('mallory')], BODY, (claim) => claim?.complete(BODY))
    look()
    expect(ended).toHaveLength(7)
  })

  test('of an address that is used up does not keep its callers waiting who come from elsewhere', () => {
    const { workers } = newWorkers(1, ALL, BODY)
    const claims = workers[0]!
    const granted: string[] = []
    for (let i = 0; i < 7; i++) claims.open([...caller(`made up ${i}`), address('crowded')], BODY)
    const others = Array.from({ length: 7 }, (_, i) => claims.open(caller(`other ${i}`), BODY)!)
    claims.wait([...ALICE, address('crowded')], 100 * KIB, () => granted.push('crowded'))
    claims.wait([...ALICE, address('elsewhere')], 200 * KIB, () => granted.push('elsewhere'))
    others[0]!.release()
    expect(granted).toEqual(['elsewhere'])
  })

  test('that is used up by slow uploads gets memory from them, in whichever worker they are', () => {
    const { workers, clock } = newWorkers(2, ALL, BODY)
    const [first, second] = workers as [BodyClaims, BodyClaims]
    const ended: string[] = []
    const granted: string[] = []
    const open = (): BodyClaim => first.open(MALLORY, BODY)!
    endInto(ended, { a: open(), b: open(), c: open(), alice: first.open(ALICE, BODY)! })
    clock.nowMs += 2000
    second.wait(MALLORY, BODY, () => granted.push('mallory'))
    look()
    expect([ended, granted]).toEqual([['a'], ['mallory']])
  })

  test('that is used up by uploads of unknown length which wait for one another ends one of them', () => {
    const { workers, clock } = newWorkers(1, ALL, 896 * KIB)
    const claims = workers[0]!
    const ended: string[] = []
    const granted: string[] = []
    const uploads = { a: claims.open(MALLORY, 448 * KIB)!, b: claims.open(MALLORY, 448 * KIB)! }
    endInto(ended, uploads)
    for (const [name, claim] of Object.entries(uploads)) claim.growLater(896 * KIB, () => granted.push(name))
    clock.nowMs += 6000
    look()
    expect([ended, granted]).toEqual([['a'], ['b']])
  })

  test('has 64 places to wait in a worker, and others have theirs', () => {
    const { workers } = newWorkers(1, ALL, ALL)
    const claims = workers[0]!
    claims.open(ANYBODY, ALL)
    const refused: string[] = []
    for (let i = 0; i < 65; i++) claims.wait(MALLORY, KIB, () => refused.push('mallory'))
    for (let i = 0; i < 64; i++) claims.wait(ALICE, KIB, () => refused.push('alice'))
    expect(refused).toEqual(['mallory'])
  })
})

/** Every worker looks after its uploads. */
function look(): void {
  // One look tells each of the others, the next is acted upon, and with the last what became free is given out.
  vi.advanceTimersByTime(3 * LOOK_MS)
}

/** So many workers in this thread, on a clock that stands still. */
function newWorkers(
  count: number,
  bytes: number,
  maxBodyBytes = bytes,
): { workers: BodyClaims[]; clock: { nowMs: number }; buffer: SharedArrayBuffer } {
  const buffer = newBodyMemoryBuffer(count)
  const metrics = newMetricBuffer(count + 1)
  const clock = { nowMs: 1_000_000 }
  const workers = Array.from({ length: count }, (_, i) => {
    const memory = new MetricMemory(metrics, i + 1)
    return new BodyClaims({
      memory: new BodyMemory(buffer, i + 1, { bodyMemoryBytes: bytes, maxBodyBytes, hashKey: HASH_KEY }),
      nowMs: () => clock.nowMs,
      heldBytes: new CounterFamily(memory, 'edge_proxy_body_memory_bytes').series(),
      waitingUploads: new CounterFamily(memory, 'edge_proxy_waiting_uploads').series(),
    })
  })
  return { workers, clock, buffer }
}

function endInto(ended: string[], uploads: Readonly<Record<string, BodyClaim>>): void {
  for (const [name, claim] of Object.entries(uploads)) {
    claim.watch()
    claim.onEnd = () => {
      ended.push(name)
      claim.release()
    }
  }
}

function caller(name: string): MemoryHolders {
  return [holder(name, 1)]
}

function address(name: string): MemoryHolder {
  return holder(name, 2)
}

function holder(name: string, shares: number): MemoryHolder {
  const options = { bodyMemoryBytes: 0, maxBodyBytes: 0, hashKey: HASH_KEY }
  return new BodyMemory(newBodyMemoryBuffer(1), 1, options).holder([name], shares)
}
