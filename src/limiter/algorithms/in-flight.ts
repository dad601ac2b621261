import { type CounterRecord, IN_FLIGHT, type InFlightLimit, NEVER, worthUntilEnd } from '../limit.ts'
import type { Algorithm } from './algorithm.ts'

/** A hold counts in the slice in which it was taken or last renewed, and in the seven after it. */
export const SLICES = 8
/** Nobody knows when a request in flight will end: it is worth asking again after this time. */
const RETRY_MS = 1000

/**
 * Requests in flight. Whoever takes a hold releases it at the end of the request, and renews it until then; the holds of one that died
 * are gone when their slice no longer counts. A record is one slice: how many holds are in it, and when it no longer counts, in wall time.
 * Its rate is the length of a slice. What is left of the limit depends on all slices that count.
 */
export const inFlight: Algorithm<InFlightLimit> = {
  clock: 'wall',
  // A hold is taken for one request, not ahead of need.
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

  settle(_limit, record, cost) {
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
    // One that ends later than a new one was written by a clock that was set back since.
    const isLive = wallMs < at && at <= wallMs + SLICES * rate
    return isLive && level > 0 ? worthUntilEnd(at - wallMs, level / size) : 0
  },
}

/** Which of the eight slices that count at one time a record is. */
export function sliceIndex({ at, rate }: CounterRecord): number {
  return Math.round(at / rate) % SLICES
}
