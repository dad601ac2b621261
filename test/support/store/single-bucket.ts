import { bucket } from '../../../src/limiter/algorithms/bucket.ts'
import { newRecord } from '../../../src/limiter/limit.ts'
import { newEmbeddedStore } from '../../../src/store/table/embedded-store.ts'
import { MIN_TABLE_BYTES } from '../../../src/store/table/table-layout.ts'
import { bucketLimit, takeRowsNow } from './charging.ts'

/** One bucket, full at first, wherever its two numbers are kept. */
interface SingleBucket {
  /** Takes the cost, or nothing; returns the level after that, and the wait (0 = taken). */
  take(cost: number, nowMs: number): { level: number; waitMs: number }
}

type NewBucket = (tokensPerMs: number, burst: number, nowMs: number) => SingleBucket

/** The arithmetic alone, its record in no store. */
const bareBucket: NewBucket = (tokensPerMs, burst, startMs) => {
  const limit = bucketLimit(tokensPerMs, burst)
  const record = newRecord()
  bucket.begin(limit, record, startMs, 0)
  return {
    take(cost, nowMs) {
      const looked = { ...record }
      bucket.refresh(limit, looked, startMs, nowMs)
      const waitMs = bucket.waitMs(limit, looked.level, cost, 0)
      if (waitMs === 0) {
        bucket.take(looked, cost)
        Object.assign(record, looked)
      }
      return { level: looked.level, waitMs }
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
