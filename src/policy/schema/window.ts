import { z } from 'zod'
import { PERIODS, type Period, timeZoneOf } from '../../limiter/calendar.ts'
import { KnownWords } from '../../text/suggest.ts'
import { type Anchor, WEEKDAYS, type WindowConfig } from '../anchor.ts'

/*
 * Fields for calendar windows, which several algorithms share. Each `error` completes the sentence "expected …".
 */

const ANCHOR = 'a weekday such as sunday (with period 1w), or a day of the month from 1 to 28 (with 1mo)'

export const windowFields = {
  period: z.enum(PERIODS, { error: ({ input }) => `a period such as ${meantPeriod(input) ?? '1d'}, one of ${PERIODS.join(', ')}` }).meta({
    description:
      'How long a window is. Windows follow the calendar: days begin at midnight, weeks on Monday, unless `anchor` names another day.',
  }),
  timezone: z
    .string({ error: zoneError })
    .refine(isTimeZone, { error: zoneError })
    .default('UTC')
    .meta({ description: 'The IANA time zone of the calendar, such as Europe/Berlin.' }),
  anchor: z
    .union([z.enum(WEEKDAYS), z.int({ error: ANCHOR }).min(1, { error: ANCHOR }).max(28, { error: ANCHOR })], { error: ANCHOR })
    .optional()
    .meta({
      description:
        'The day on which windows begin: a weekday with 1w (default monday), a day of the month from 1 to 28 with 1mo (default 1).',
    }),
}

/** Refuses an anchor that its period cannot have. */
export function checkAnchor({ value: { period, anchor }, issues }: z.core.ParsePayload<WindowConfig>): void {
  if (anchor === undefined) return
  const message = anchorProblem(period, anchor)
  if (message !== undefined) issues.push({ code: 'custom', message, input: anchor, path: ['anchor'] })
}

function anchorProblem(period: Period, anchor: Anchor): string | undefined {
  if (period === '1w') return typeof anchor === 'string' ? undefined : `a weekday with 1w, one of ${WEEKDAYS.join(', ')}`
  if (period === '1mo') return typeof anchor === 'number' ? undefined : 'a day of the month from 1 to 28 with 1mo'
  return `no anchor with ${period}: only windows of 1w and 1mo can begin on another day`
}

const MAX_ZONE_CHARACTERS = 64

/** Refuses abbreviations: several zones share one, and which of them Intl chooses depends on its version. */
function isTimeZone(name: string): boolean {
  if (name.length > MAX_ZONE_CHARACTERS || !/^[a-z]/i.test(name)) return false
  try {
    return timeZoneOf(name).name === 'UTC' || name.includes('/')
  } catch {
    return false
  }
}

function zoneError({ input }: { readonly input?: unknown }): string {
  return `an IANA time zone as Area/City, such as ${meantZone(input) ?? 'Europe/Berlin'}`
}

/** Suggests the zone that a name is a misspelling of, or whose city it names. */
function meantZone(input: unknown): string | undefined {
  if (typeof input !== 'string' || input.length > MAX_ZONE_CHARACTERS) return undefined
  // The suggestions are made once: Intl rebuilds its list on every call, and a bundle may have thousands of wrong names.
  suggestions ??= zoneSuggestions()
  const { zoneByCity, zoneByWords, words } = suggestions
  const city = input.trim().toLowerCase().replaceAll(' ', '_')
  return zoneByCity.get(city) ?? zoneByWords.get(words.closest(asWords(input)) ?? '')
}

interface ZoneSuggestions {
  readonly zoneByCity: ReadonlyMap<string, string>
  readonly zoneByWords: ReadonlyMap<string, string>
  readonly words: KnownWords
}

let suggestions: ZoneSuggestions | undefined

function zoneSuggestions(): ZoneSuggestions {
  const zones = Intl.supportedValuesOf('timeZone')
  const zoneByWords = new Map(zones.map((zone) => [asWords(zone), zone]))
  return {
    zoneByCity: new Map(zones.map((zone) => [zone.slice(zone.lastIndexOf('/') + 1).toLowerCase(), zone])),
    zoneByWords,
    words: new KnownWords(zoneByWords.keys()),
  }
}

/** Replaces slashes, because `KnownWords` suggests nothing for a name with a slash. */
function asWords(zone: string): string {
  return zone.replaceAll('/', ' ')
}

const UNITS: readonly (readonly [unit: RegExp, minutes: number, months: number])[] = [
  [/^s(ec(ond)?s?)?$/, 1 / 60, 0],
  [/^m(in(ute)?s?)?$/, 1, 0],
  [/^(h(ou)?rs?|h|hourly)$/, 60, 0],
  [/^(d|days?|daily)$/, 24 * 60, 0],
  [/^(w|weeks?|wk|weekly)$/, 7 * 24 * 60, 0],
  [/^(mo|mon|months?|monthly)$/, 0, 1],
  [/^(q|quarters?|quarterly)$/, 0, 3],
  [/^(y|yr|years?|yearly|annual(ly)?)$/, 0, 12],
]

/** Suggests the period that was meant by `daily`, `24h` or `1 month`, but none for `1M`, which may be a minute or a month. */
function meantPeriod(input: unknown): Period | undefined {
  const written = typeof input === 'string' && !/\dM$/.test(input) ? lengthOf(input.toLowerCase()) : undefined
  return written === undefined ? undefined : PERIODS.find((period) => lengthOf(period) === written)
}

/** Returns a length as a text that can be compared. Minutes and months are kept apart, because a month has no fixed number of minutes. */
function lengthOf(text: string): string | undefined {
  const [, count = '', unit] = /^(\d{0,6})[ _-]?([a-z]{1,10})$/.exec(text.trim()) ?? []
  const known = UNITS.find(([name]) => unit !== undefined && name.test(unit))
  if (known === undefined) return undefined
  const times = count === '' ? 1 : Number(count)
  return `${times * known[1]} ${times * known[2]}`
}
