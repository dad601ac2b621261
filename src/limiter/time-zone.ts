/** The civil days of a place, counted from 1970-01-01. A day that is skipped has no length, and no day begins twice. */
export interface TimeZone {
  readonly name: string
  /** The last day that has begun. */
  dayAt(wallMs: number): number
  /** The first instant of a day, which is not 00:00 where clocks go forward over midnight. */
  startMs(day: number): number
}

export const DAY_MS = 86_400_000

const UTC: TimeZone = {
  name: 'UTC',
  dayAt: (wallMs) => Math.floor(wallMs / DAY_MS),
  startMs: (day) => day * DAY_MS,
}

/** All names that IANA links to UTC: whether Intl resolves them depends on its version. */
const UTC_NAMES = /^(etc\/)?(utc|uct|universal|zulu|greenwich|gmt([+-]?0)?)$/i

const ZONES = new Map<string, TimeZone>([['UTC', UTC]])

/**
 * The zone of an IANA name, in upper or lower case, the same object for the same zone name. An unknown one throws a RangeError.
 * Other spellings take no more memory: there are at most two objects for each name that Intl knows.
 */
export function timeZoneOf(name: string): TimeZone {
  const known = ZONES.get(UTC_NAMES.test(name) ? 'UTC' : name)
  if (known !== undefined) return known
  const format = clockFormat(name)
  const canonical = canonicalName(name, format.resolvedOptions().timeZone)
  const zone = ZONES.get(canonical) ?? new IntlTimeZone(canonical, format)
  ZONES.set(canonical, zone)
  return zone
}

/**
 * Names are part of a counter's identity. Some Node versions resolve Asia/Kolkata to Asia/Calcutta and others do not, so a name in
 * IANA's usual spelling stays as it is. Only other spellings are replaced by Intl's name.
 */
function canonicalName(written: string, resolved: string): string {
  return /^[A-Z][a-z]+([/_-][A-Z][a-z]+)*$/.test(written) ? written : resolved
}

/** Wider than any zone's offset since 1970: -12 h to +14 h. */
const WIDEST_OFFSET_MS = 15 * 3_600_000

/**
 * Gets offsets from Intl's local times. No zone has changed its offset twice within a week since 1970, so that there is at most one
 * change around a midnight.
 */
class IntlTimeZone implements TimeZone {
  readonly name: string
  readonly #format: Intl.DateTimeFormat

  constructor(name: string, format: Intl.DateTimeFormat) {
    this.name = name
    this.#format = format
  }

  dayAt(wallMs: number): number {
    const shown = Math.floor(this.#shownMs(wallMs) / DAY_MS)
    // Clocks that go back shortly after midnight show the previous day again (America/St_Johns until 2011, at 00:01).
    return this.startMs(shown + 1) <= wallMs ? shown + 1 : shown
  }

  /** Two calls of Intl on most days, four at most at a change, and up to 17 more where clocks leap over midnight. */
  startMs(day: number): number {
    const midnightMs = day * DAY_MS
    const offsetBefore = this.#offsetMs(midnightMs - WIDEST_OFFSET_MS)
    const offsetAfter = this.#offsetMs(midnightMs + WIDEST_OFFSET_MS)
    const byOldOffset = midnightMs - offsetBefore
    if (offsetBefore === offsetAfter || this.#offsetMs(byOldOffset) === offsetBefore) return byOldOffset
    const byNewOffset = midnightMs - offsetAfter
    if (this.#offsetMs(byNewOffset) === offsetAfter) return byNewOffset
    return this.#changeMs(byNewOffset, byOldOffset, offsetAfter)
  }

  /** The first instant with the new offset, after the first of two whole seconds and not after the second: 17 halvings of a day. */
  #changeMs(beforeMs: number, afterMs: number, newOffsetMs: number): number {
    let lowMs = beforeMs
    let highMs = afterMs
    while (highMs - lowMs > 1000) {
      const middleMs = lowMs + Math.floor((highMs - lowMs) / 2000) * 1000
      if (this.#offsetMs(middleMs) === newOffsetMs) highMs = middleMs
      else lowMs = middleMs
    }
    return highMs
  }

  /** At a whole second. */
  #offsetMs(wallMs: number): number {
    return this.#shownMs(wallMs) - wallMs
  }

  /** The local date and time, to the second, read as UTC. */
  #shownMs(wallMs: number): number {
    // month/day/year, hour:minute:second
    const [month, day, year, hour, minute, second] = this.#format.format(wallMs).match(/\d+/g)!.map(Number)
    return Date.UTC(year!, month! - 1, day, hour, minute, second)
  }
}

/** With a fixed locale: the format must not depend on the host's settings. */
function clockFormat(timeZone: string): Intl.DateTimeFormat {
  return new Intl.DateTimeFormat('en-US', {
    timeZone,
    hourCycle: 'h23',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
    second: 'numeric',
  })
}
