import { dateTimeMs } from '../../../text/formats.ts'

/** Bounds on valid times. Others are mistakes, and a clock that jumped there could never come back. */
const MIN_MS = Date.UTC(1970, 0, 1)
const MAX_MS = Date.UTC(2200, 0, 1)

/** From here on, a number counts milliseconds: as seconds, it would be a time after the year 5000. */
const LEAST_MILLISECONDS = 1e11

/** Reads Unix time in seconds or milliseconds. Returns NaN if it is out of bounds. */
export function numberMs(value: number): number {
  return bounded(value < LEAST_MILLISECONDS ? value * 1000 : value)
}

const NUMBER = /^\d{1,16}(?:\.\d{1,9})?$/

/** Reads a time as logs write it: RFC 3339, nginx's time_local, or a number. Returns NaN for anything else. */
export function textMs(text: string): number {
  if (text.charCodeAt(4) === DASH) return rfc3339Ms(text)
  if (text.charCodeAt(2) === SLASH) return localTimeMs(text)
  return NUMBER.test(text) ? numberMs(Number(text)) : Number.NaN
}

const DASH = 0x2d
const SLASH = 0x2f
const COLON = 0x3a
const DOT = 0x2e

const CAPITAL_T = 0x54
const CAPITAL_Z = 0x5a
/** Length of `2026-01-02T15:04:05`, and of the same with a nine-digit fraction and `Z`. */
const SECONDS_END = 19
const LONGEST = 30

let date = ''
let dateMs = Number.NaN

/** Is fast for times in UTC with the same date as in the line before, which most lines have. Other spellings take longer. */
function rfc3339Ms(text: string): number {
  const last = text.length - 1
  const isUtc = text.charCodeAt(10) === CAPITAL_T && text.charCodeAt(last) === CAPITAL_Z && text.length <= LONGEST
  const millis = last === SECONDS_END ? 0 : millisecondsAt(text, SECONDS_END, last)
  const seconds = daySeconds(text, 11)
  if (!isUtc || Number.isNaN(millis) || Number.isNaN(seconds)) return bounded(dateTimeMs(text))
  if (date === '' || !text.startsWith(date)) {
    date = text.slice(0, 10)
    dateMs = dateTimeMs(`${date}T00:00:00Z`)
  }
  return bounded(dateMs + seconds * 1000 + millis)
}

/** Reads `.123456` at `at` as milliseconds, and drops further digits, as Date does. Returns NaN for anything else. */
function millisecondsAt(text: string, at: number, end: number): number {
  if (text.charCodeAt(at) !== DOT || end - at < 2) return Number.NaN
  let millis = 0
  let unit = 100
  for (let i = at + 1; i < end; i++) {
    const digit = text.charCodeAt(i) - 0x30
    if (!(digit >= 0 && digit <= 9)) return Number.NaN
    millis += digit * unit
    unit = unit > 1 ? unit / 10 : 0
  }
  return millis
}

const LOCAL_TIME = /^(\d\d)\/(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\/(\d{4}):(\d\d:\d\d:\d\d) ([+-]\d\d)(\d\d)$/
const MONTHS = 'Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec'

let localTime = ''
let localMs = Number.NaN

/** Reads `02/Jan/2026:15:04:05 +0100`. The last result is kept, because many lines have the same second as the line before. */
function localTimeMs(text: string): number {
  if (text === localTime) return localMs
  const [, day, month, year, time, hours, minutes] = LOCAL_TIME.exec(text) ?? []
  if (day === undefined) return Number.NaN
  const number = String(MONTHS.indexOf(month!) / 4 + 1).padStart(2, '0')
  localMs = bounded(dateTimeMs(`${year}-${number}-${day}T${time}${hours}:${minutes}`))
  localTime = text
  return localMs
}

/** Reads `15:04:05` at `at` as seconds of the day. Returns NaN for anything else. */
function daySeconds(text: string, at: number): number {
  if (text.charCodeAt(at + 2) !== COLON || text.charCodeAt(at + 5) !== COLON) return Number.NaN
  const hours = twoDigits(text, at)
  const minutes = twoDigits(text, at + 3)
  const seconds = twoDigits(text, at + 6)
  return hours < 24 && minutes < 60 && seconds < 60 ? hours * 3600 + minutes * 60 + seconds : Number.NaN
}

function twoDigits(text: string, at: number): number {
  const [tens, ones] = [text.charCodeAt(at) - 0x30, text.charCodeAt(at + 1) - 0x30]
  return tens >= 0 && tens <= 9 && ones >= 0 && ones <= 9 ? tens * 10 + ones : Number.NaN
}

function bounded(ms: number): number {
  return ms >= MIN_MS && ms < MAX_MS ? ms : Number.NaN
}
