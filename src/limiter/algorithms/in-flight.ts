import { type CounterRecord, IN_FLIGHT, type InFlightLimit, NEVER, worthUntilEnd } from '../limit.ts'
import type { Algorithm } from './algorithm.ts'

/** A hold counts in the slice in which it was taken or last renewed, and in the seven after it. */
export const SLICES = 8
/** How long a rejected caller should wait before it retries. Nobody knows when a request in flight will end. */
const RETRY_MS = 1000

/**
 * Counts requests in flight. Whoever takes a hold renews it until the request ends, and then releases it; if a holder dies, its holds expire
 * when their slice no longer counts. A record is one slice: the number of its holds, and the wall time from which it no longer counts. Its
 * rate is the length of a slice. What is left of the limit depends on all slices that count.
 */
export const inFlight: Algorithm<InFlightLimit> = {
  clock: 'wall',
  // A hold belongs to one request, so it cannot be pre-fetched.
  isLeasable: false,
  hasWindows: false,
  isSliced: true,

  size: (limit) => limit.max,
  isSame: (a, b) => a.max === b.max && a.sliceMs === b.sliceMs,
  windowAt: () => 0,

  begin(limit, record, _nowMs, wallMs) {
    record.kind = IN_FLIGHT
    record.level = 0
    record.at = (Math.floor(wallMs / limit.sliceMs) + SLICES) * limit.sliceMs
    record.size = limit.max
    record.rate = limit.sliceMs
  },

  refresh(limit, record) {
    record.size = limit.max
  },

  left: (limit, record) => limit.max - record.level,

  take(record, cost) {
    record.level += cost
  },

  settle(record, cost) {
    record.level = Math.max(0, record.level - cost)
  },

  refillIn: () => 0,

  waitMs(limit, left, cost) {
    if (left >= cost || cost === 0) return 0
    return cost > limit.max ? NEVER : RETRY_MS
  },

  resetMs: (limit, left) => (left < limit.max ? RETRY_MS : 0),

  worthMs(record, _nowMs, wallMs) {
    const { level, at, size, rate } = record
    // A record that ends later than a new one would was written before the clock was set back.
    const isLive = wallMs < at && at <= wallMs + SLICES * rate
    return isLive && level > 0 ? worthUntilEnd(at - wallMs, level / size) : 0
  },
}

/** Returns which of the eight slices that count at one time a record belongs to. */
export function sliceIndex({ at, rate }: CounterRecord): number {
  return Math.round(at / rate) % SLICES
}
