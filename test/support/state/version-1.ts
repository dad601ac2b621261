import { createHash } from 'node:crypto'
import type { Moment } from '../../../src/store/state/state-format.ts'

/** A record as version 1 had it: of a bucket, or of a UTC day, whose rate is 0 and whose `at` is its end on the monotonic clock. */
export interface Version1Record {
  readonly low: number
  readonly high: number
  readonly level: number
  readonly at: number
  readonly size: number
  readonly rate: number
}

/** A file of version 1, written from the description of the format and by none of the code that reads it. */
export function version1File(records: readonly Version1Record[], { wallMs, nowMs }: Moment, hashKey: readonly [number, number]): Buffer {
  const body = Buffer.alloc(40 + records.length * 32 + 8)
  body.write('EDGSTATE', 0, 'latin1')
  body.writeUInt32LE(1, 8)
  body.writeInt32LE(hashKey[0], 16)
  body.writeInt32LE(hashKey[1], 20)
  body.writeDoubleLE(wallMs, 24)
  body.writeDoubleLE(nowMs, 32)
  for (const [i, { low, high, level, at, size, rate }] of records.entries()) {
    const offset = 40 + i * 32
    body.writeInt32LE(low, offset)
    body.writeInt32LE(high, offset + 4)
    body.writeDoubleLE(level, offset + 8)
    body.writeDoubleLE(at, offset + 16)
    body.writeFloatLE(size, offset + 24)
    body.writeFloatLE(rate, offset + 28)
  }
  body.writeDoubleLE(records.length, body.length - 8)
  return sealed(body)
}

/** With the checksum that ends a file of either version. */
export function sealed(body: Buffer): Buffer {
  return Buffer.concat([body, createHash('sha256').update(body).digest()])
}

/** What edge 0.1 finds wrong with a file by its first bytes, before it reads on: its own rule, as it was. */
export function version1Complaint(bytes: Buffer): string | undefined {
  if (bytes.length < 8 || bytes.toString('latin1', 0, 8) !== 'EDGSTATE') return 'it is not a state file'
  if (bytes.length < 40) return 'it is truncated'
  const version = bytes.readUInt32LE(8)
  return version === 1 ? undefined : `its format is version ${version}, and this program knows version 1`
}

/**
 * What edge 0.1 saved at noon of 2026-01-15, its monotonic clock at 123456789.0625 ms, for a hash key of [0x5eed, -0x5eed]:
 *
 *     p, r, bucket      100 tokens, 1 in 1024 ms      alice has 1, bob 97.5
 *     p, slow, bucket   1000 tokens, 1 in 2^40 ms     alice owes 249, less what came back in 1024 ms
 *     p, r, day         1000 tokens a day             alice has 100, bob 999
 */
export const SAVED_BY_0_1 = Buffer.from(
  'RURHU1RBVEUBAAAAAAAAAO1eAAATof//AADgbRi8eUIAAEBUNG+dQcoedViq1d0YAAAAAAAAAAAAAEBUJG+dQQAAyEIAAIA67hHzKAD/ZEYAAAAAACBYQAAAQFQkb51B' +
    'AADIQgAAgDqEGqgVkEt8WQAAAAAAAPA/AAAgKvbdo0EAAHpEAAAAAKbhQxImoSfHAAAAAAAgjEAAACAq9t2jQQAAekQAAAAAin1WAohFZ9IAgP///x9vwAAAQFQ0b51B' +
    'AAB6RAAAgCsAAAAAAAAUQLyt1ugMnq4zqK3spY8Up3IaXz2++8zHtAbC6qWhYHke',
  'base64',
)

/** What `edge serve` 0.1 saved for a rule `r` of a policy `p` on `header:x-caller`, 100 tokens and 1e-9 a second: alice had 58, bob 99. */
export const SAVED_BY_SERVICE_0_1 = Buffer.from(
  'RURHU1RBVEUBAAAAAAAAANNmidRnYaNnAAAjBRUeekJlAdPAVqt2QUi8Ihje7PMbl80AAAAATUDXGd/uVKt2QQAAyELMvIwrwNcKmY5c9FwAAAAAAMBYQAZM4LlVq3ZB' +
    'AADIQsy8jCsAAAAAAAAAQM+vGDZaDcyzthuN2qOnpUH1adGrHTm/JQP2a1vWgRRc',
  'base64',
)
