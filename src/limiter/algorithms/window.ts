import type { Calendar } from '../calendar.ts'
import { type CounterRecord, NEVER, WINDOW, type WindowLimit, worthUntilEnd } from '../limit.ts'
import type { Algorithm } from './algorithm.ts'

/** An unused record that has warned is worth this share of its remaining time: it is kept, so as not to warn again, but evicted before others. */
const WARNED_SHARE = 2 ** -20

/**
 * A window's record has the amount that is used, the wall time at which the window ends and, as its rate, the highest percentage that was
 * warned about. Each window is a counter of its own, so that a take or settlement of one never changes another.
 */
export const window: Algorithm<WindowLimit> = {
  clock: 'wall',
  // Takes and settlements must find the window that they belong to.
  isLeasable: false,
  hasWindows: true,
  isSliced: false,

  size: (limit) => limit.tokens,
  isSame: (a, b) => a.tokens === b.tokens && isSameCalendar(a.calendar, b.calendar),
  windowAt: (limit, wallMs) => limit.calendar.windowAt(wallMs).number,

  begin(limit, record, _nowMs, wallMs) {
    record.kind = WINDOW
    record.level = 0
    record.at = limit.calendar.windowAt(wallMs).endMs
    record.size = limit.tokens
    record.rate = 0
  },

  // What is used stays used under a new limit.
  refresh(limit, record) {
    record.size = limit.tokens
  },

  // Below zero where settlements charged more than was left.
  left: ({ tokens }, { level }) => tokens - level,

  take(record, cost) {
    record.level += cost
  },

  settle(record, cost) {
    record.level = Math.max(0, record.level - cost)
  },

  refillIn: () => 0,

  waitMs(limit, left, cost, wallMs) {
    if (left >= cost && left > 0) return 0
    if (limit.canOverdraw) return left > 0 ? 0 : untilEndMs(limit, wallMs)
    if (cost === 0) return 0
    return cost > limit.tokens ? NEVER : untilEndMs(limit, wallMs)
  },

  resetMs: (limit, left, wallMs) => (left < limit.tokens ? untilEndMs(limit, wallMs) : 0),

  worthMs({ level, at, size, rate }, _nowMs, wallMs) {
    if (wallMs >= at) return 0
    if (level > 0) return worthUntilEnd(at - wallMs, level / size)
    return rate > 0 ? (at - wallMs) * WARNED_SHARE : 0
  },
}

/** Returns the highest percentage that is reached and was not warned about yet, or 0. From now on it counts as warned about. */
export function newWarning({ warnings }: WindowLimit, record: CounterRecord): number {
  let reached = 0
  for (const { percent, tokens } of warnings!) if (record.level >= tokens) reached = percent
  if (reached <= record.rate) return 0
  record.rate = reached
  return reached
}

/** Compares by value, because the limits of a large bundle are copied from the thread that reads it. */
function isSameCalendar(a: Calendar, b: Calendar): boolean {
  return a.period === b.period && a.zone === b.zone && a.anchor === b.anchor
}

function untilEndMs({ calendar }: WindowLimit, wallMs: number): number {
  return calendar.windowAt(wallMs).endMs - wallMs
}
