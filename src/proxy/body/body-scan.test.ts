import { setImmediate as nextTurn } from 'node:timers/promises'
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { WorkSlices } from '../../time/slices.ts'
import { BodyScan, type BodyScanOptions, type ScanOutcome, scanAll } from './body-scan.ts'

const MIB = 1024 * 1024

/** Keeps what it is given, and how much that was each time. */
class Recorder {
  readonly pushed: Buffer[] = []
  readonly sizes: number[] = []
  isBeyondLimits = false

  push(bytes: Uint8Array, from: number, to: number): void {
    this.sizes.push(to - from)
    this.pushed.push(Buffer.from(bytes.subarray(from, to)))
  }

  get text(): string {
    return Buffer.concat(this.pushed).toString('latin1')
  }
}

/** A scan on a clock by which every step takes a whole slice. */
function newScan(options: Partial<BodyScanOptions> = {}): { scan: BodyScan; reader: Recorder; broken: unknown[] } {
  let nowMs = 0
  const reader = new Recorder()
  const broken: unknown[] = []
  const slices = new WorkSlices(() => (nowMs += 2))
  const onBroken = (error: unknown): void => void broken.push(error)
  return {
    scan: new BodyScan(reader, { coding: 'identity', maxBytes: 16 * MIB, slices, isBorrowed: false, onBroken, ...options }),
    reader,
    broken,
  }
}

function ended(scan: BodyScan): Promise<ScanOutcome> {
  return new Promise((resolve) => {
    scan.end(resolve)
  })
}

describe('a body that is read', () => {
  const text = Array.from({ length: 15_000 }, (_, i) => `${i} `).join('')

  test.each([
    ['identity', (body: string) => Buffer.from(body)],
    ['gzip', gzipSync],
    ['deflate', deflateSync],
    ['br', brotliCompressSync],
  ] as const)('%s: is read whole, in steps of at most 16 KiB, a slice of each turn', async (coding, encode) => {
    const { scan, reader } = newScan({ coding })
    scan.write(encode(text))
    const whole = ended(scan)
    for (let steps = reader.sizes.length; reader.text.length < text.length; steps = reader.sizes.length) {
      await nextTurn()
      // One of the turn that ends here, and one of the next.
      expect(reader.sizes.length - steps).toBeLessThanOrEqual(2)
    }
    expect(await whole).toBe('read')
    expect(reader.text).toBe(text)
    expect(Math.max(...reader.sizes)).toBeLessThanOrEqual(16 * 1024)
  })

  test('has to wait where it comes faster than it is read', async () => {
    let drained = 0
    const { scan, reader } = newScan({ onDrain: () => drained++ })
    expect(scan.write(Buffer.alloc(16 * 1024))).toBe(true)
    expect(scan.write(Buffer.alloc(32 * 1024))).toBe(false)
    expect([reader.sizes.length, drained]).toEqual([1, 0])
    for (let i = 0; i < 3; i++) await nextTurn()
    expect([reader.sizes.length, drained]).toEqual([3, 1])
  })

  test.each([
    ['identity', (body: string) => Buffer.from(body)],
    ['gzip', gzipSync],
  ] as const)('%s: may be overwritten behind each write where it is borrowed', async (coding, encode) => {
    const { scan, reader } = newScan({ coding, isBorrowed: true })
    const body = encode(text)
    const shared = Buffer.alloc(20_000)
    for (let at = 0; at < body.length; at += shared.length) {
      const length = body.copy(shared, 0, at)
      scan.write(shared.subarray(0, length))
      shared.fill('!')
    }
    expect([await ended(scan), reader.text === text]).toEqual(['read', true])
  })

  test('can be read at once where its end will not come', () => {
    const { scan, reader } = newScan()
    scan.write(Buffer.alloc(100_000))
    let isRead = false
    scan.readRest(() => (isRead = true))
    expect(isRead).toBe(true)
    expect(reader.sizes.reduce((sum, size) => sum + size, 0)).toBe(100_000)
  })

  test.each(['gzip', 'deflate', 'br'] as const)('%s: what comes behind the end of its coding is ignored', async (coding) => {
    const encode = { gzip: gzipSync, deflate: deflateSync, br: brotliCompressSync }[coding]
    const { scan, reader } = newScan({ coding })
    scan.write(Buffer.concat([encode('hello'), Buffer.alloc(3)]))
    expect([await ended(scan), reader.text]).toEqual(['read', 'hello'])
  })
})

describe('a body that is not read', () => {
  test.each([
    ['gzip', Buffer.from('no gzip')],
    ['gzip', gzipSync('hello').subarray(0, -9)],
    ['gzip', Buffer.alloc(0)],
    ['deflate', deflateSync('hello').subarray(0, -5)],
    ['br', brotliCompressSync('hello').subarray(0, -2)],
  ] as const)('is damaged: %s of %j', async (coding, bytes) => {
    const { scan } = newScan({ coding })
    scan.write(bytes)
    expect(await ended(scan)).toBe('damaged')
  })

  test('is too large as soon as it decodes to more than it may', async () => {
    const { scan, reader } = newScan({ coding: 'gzip', maxBytes: MIB })
    scan.write(gzipSync(Buffer.alloc(4 * MIB)))
    expect(await ended(scan)).toBe('too_large')
    expect(reader.sizes.reduce((sum, size) => sum + size, 0)).toBeLessThanOrEqual(MIB)
  })

  test('is too large where its reader says so, and the rest is not decoded', async () => {
    const { scan, reader } = newScan({ coding: 'gzip' })
    reader.isBeyondLimits = true
    scan.write(gzipSync(Buffer.alloc(8 * MIB)))
    expect([await ended(scan), reader.sizes.length]).toEqual(['too_large', 1])
  })

  test('breaks nobody else where its reader throws', async () => {
    const { scan, reader, broken } = newScan({ coding: 'gzip' })
    reader.push = () => {
      throw new Error('oops')
    }
    scan.write(gzipSync('hello'))
    let outcome: ScanOutcome | undefined
    scan.end((how) => {
      outcome = how
    })
    while (broken.length === 0) await nextTurn()
    expect([broken, outcome]).toEqual([[new Error('oops')], undefined])
  })
})

describe('a body that is there as a whole', () => {
  const options = (changes: Partial<BodyScanOptions> = {}): BodyScanOptions => ({
    coding: 'identity',
    maxBytes: MIB,
    slices: new WorkSlices(() => 0),
    isBorrowed: false,
    onBroken: () => {},
    ...changes,
  })

  test.each([
    ['read', 0, false],
    ['read', 100_000, false],
    ['too_large', MIB + 1, false],
    ['too_large', 100, true],
  ] as const)('is %s at once while its slice has time left: %d bytes', (outcome, bytes, isBeyondLimits) => {
    const reader = new Recorder()
    reader.isBeyondLimits = isBeyondLimits
    expect(scanAll(reader, Buffer.alloc(bytes), options())).toBe(outcome)
    if (outcome === 'read') expect(reader.text.length).toBe(bytes)
  })

  test.each([
    ['that has to wait for a slice', Buffer.alloc(100_000), {}],
    ['that is decoded', gzipSync(Buffer.alloc(100_000)), { coding: 'gzip' }],
  ] as const)('%s is promised', async (_what, bytes, changes) => {
    const reader = new Recorder()
    let nowMs = 0
    const read = scanAll(reader, bytes, options({ slices: new WorkSlices(() => (nowMs += 2)), ...changes }))
    expect(read).toBeInstanceOf(Promise)
    expect([await read, reader.text.length]).toEqual(['read', 100_000])
  })

  test.each([
    ['at once', Buffer.from('hello'), {}],
    ['later', gzipSync('hello'), { coding: 'gzip' }],
  ] as const)('throws what its reader throws, %s', async (_when, bytes, changes) => {
    const reader = new Recorder()
    reader.push = () => {
      throw new Error('oops')
    }
    await expect((async () => await scanAll(reader, bytes, options(changes)))()).rejects.toThrow('oops')
  })
})
