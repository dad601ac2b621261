import { refill, waitMs } from '../../../src/limiter/bucket.ts'
import { newEmbeddedStore } from '../../../src/store/embedded-store.ts'
import { MIN_TABLE_BYTES } from '../../../src/store/shared-table.ts'
import { bucketLimit, takeRowsNow } from './charging.ts'

/** One bucket, full at first, wherever its two numbers are kept. */
interface SingleBucket {
  /** Takes the cost, or nothing; answers the level after that, and the wait (0 = taken). */
  take(cost: number, nowMs: number): { level: number; waitMs: number }
}

type NewBucket = (tokensPerMs: number, burst: number, nowMs: number) => SingleBucket

/** The arithmetic alone, its two numbers in variables. */
const bareBucket: NewBucket = (tokensPerMs, burst, startMs) => {
  let level = burst
  let atMs = startMs
  return {
    take(cost, nowMs) {
      const current = refill(level, atMs, tokensPerMs, burst, nowMs)
      const wait = waitMs(current, cost, tokensPerMs, burst)
      if (wait > 0) return { level: current, waitMs: wait }
      level = current - cost
      atMs = Math.max(atMs, nowMs)
      return { level, waitMs: 0 }
    },
  }
}

/** A slot of the shared table, through the store that the service runs on. */
const storedBucket: NewBucket = (tokensPerMs, burst, startMs) => {
  const store = newEmbeddedStore(MIN_TABLE_BYTES)
  const counter = store.open({ identity: ['bucket'], limit: bucketLimit(tokensPerMs, burst), sinceMs: startMs })
  return {
    take(cost, nowMs) {
      const { levels, waitsMs } = takeRowsNow(store, [{ counter, cost }], nowMs)
      return { level: levels[0]!, waitMs: waitsMs[0]! }
    },
  }
}

export const BUCKET_PLACES: readonly [string, NewBucket][] = [
  ['bare arithmetic', bareBucket],
  ['EmbeddedStore', storedBucket],
]
