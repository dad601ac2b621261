import { BUCKET, type BucketLimit, type CounterRecord, NEVER } from '../limit.ts'
import type { Algorithm } from './algorithm.ts'

// Size and rate may have been rounded to 24 bits, so `worthMs` errs on the side of keeping a record.
const F32_SLACK = 2 ** -22

/** A bucket's record is a level, and the time of that level on the monotonic clock. */
export const bucket: Algorithm<BucketLimit> = {
  clock: 'monotonic',
  isLeasable: true,
  hasWindows: false,
  isSliced: false,

  size: (limit) => limit.burst,
  isSame: (a, b) => a.tokensPerMs === b.tokensPerMs && a.burst === b.burst,
  windowAt: () => 0,

  begin(limit, record, nowMs) {
    record.kind = BUCKET
    record.level = limit.burst
    record.at = nowMs
    record.size = limit.burst
    record.rate = limit.tokensPerMs
  },

  refresh(limit, record, sinceMs, nowMs) {
    const { tokensPerMs, burst } = limit
    // A decision that began before the record got another limit, and reaches it afterwards, is made under that other limit.
    if (record.at > nowMs && isOfOther(limit, record)) return
    if (record.at < sinceMs && isOfOther(limit, record)) {
      // The record was last updated under another limit: until the change, it refilled at the old rate, up to the old size.
      record.level = refill(record.level, record.at, record.rate, record.size, sinceMs) + raise(limit, record.size)
      record.at = sinceMs
    }
    record.level = refill(record.level, record.at, tokensPerMs, burst, nowMs)
    // The record never goes back in time, so that the refill between two moments is granted only once.
    if (record.at < nowMs) record.at = nowMs
    record.size = burst
    record.rate = tokensPerMs
  },

  left: (_limit, record) => record.level,

  take(record, cost) {
    record.level -= cost
  },

  settle(record, cost) {
    record.level = Math.min(record.level + cost, record.size)
  },

  refillIn: (limit, ms) => limit.tokensPerMs * ms,

  waitMs(limit, left, cost) {
    if (left >= cost && left > 0) return 0
    const { tokensPerMs, burst } = limit
    if (limit.canOverdraw) return left > 0 ? 0 : untilAboveZeroMs(left, tokensPerMs)
    // Taking nothing is always possible, even with a debt.
    if (cost === 0) return 0
    if (cost > burst) return NEVER
    return untilMs(left, tokensPerMs, cost)
  },

  resetMs: ({ burst, tokensPerMs }, left) => (left >= burst ? 0 : untilMs(left, tokensPerMs, burst)),

  worthMs({ level, at, size, rate }, nowMs) {
    const elapsedMs = nowMs - at
    const missing = size * (1 + F32_SLACK) - level - (elapsedMs > 0 ? elapsedMs * rate * (1 - F32_SLACK) : 0)
    return missing > 0 ? missing / rate : 0
  },
}

function isOfOther({ burst, tokensPerMs }: BucketLimit, { size, rate }: CounterRecord): boolean {
  return size !== Math.fround(burst) || rate !== Math.fround(tokensPerMs)
}

/** Returns what an override adds to a record of another size. A record whose size was cut before gets no more than one whose size was not. */
function raise({ burst, raisedFrom }: BucketLimit, recordSize: number): number {
  return raisedFrom === undefined ? 0 : Math.max(0, burst - Math.max(raisedFrom, recordSize))
}

/** Returns how long until the level is high enough, by the arithmetic of `refill`. */
function untilMs(left: number, tokensPerMs: number, level: number): number {
  const wait = (level - left) / tokensPerMs
  // The division may round up, and a little more than an hour would become 3601 whole seconds.
  const whole = Math.round(wait)
  if (Math.abs(whole - wait) < 0.001 && left + whole * tokensPerMs >= level) return whole
  // It may also round down, and a caller that waits exactly that long would be rejected again.
  return left + wait * tokensPerMs >= level ? wait : wait * (1 + 4 * Number.EPSILON)
}

/** Returns the wait until a millisecond after the debt is paid, because nothing is left yet at that moment itself. */
function untilAboveZeroMs(left: number, tokensPerMs: number): number {
  const wait = Math.ceil(-left / tokensPerMs) + 1
  return left + wait * tokensPerMs > 0 ? wait : wait * (1 + 4 * Number.EPSILON)
}

/** Returns the level at `nowMs`. A time before `atMs` refills nothing. */
function refill(level: number, atMs: number, tokensPerMs: number, burst: number, nowMs: number): number {
  const elapsedMs = nowMs - atMs
  const refilled = elapsedMs > 0 ? level + elapsedMs * tokensPerMs : level
  return Math.min(refilled, burst)
}
