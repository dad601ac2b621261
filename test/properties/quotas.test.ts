import fc from 'fast-check'
import { expect, test } from 'vitest'
import { Engine } from '../../src/engine/engine.ts'
import { compileBundle } from '../../src/policy/compile.ts'
import { parseBundle } from '../../src/policy/parse.ts'
import { PlainRequestView } from '../../src/request/view.ts'
import { newEmbeddedStore } from '../../src/store/table/embedded-store.ts'
import { bundle, policy, windowRule } from '../support/bundles/bundles.ts'
import { runs } from '../support/run/property-runs.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

/** Zones, and instants at which their clocks change, a day is left out, or a month or a year ends. */
const PLACES: readonly (readonly [zone: string, ...times: readonly string[]])[] = [
  ['UTC', '2026-02-28T12:00Z', '2028-02-28T12:00Z', '2026-12-31T12:00Z'],
  ['Europe/Berlin', '2026-03-29T01:00Z', '2026-10-25T01:00Z', '2026-02-28T23:00Z', '2026-12-31T23:00Z'],
  ['America/New_York', '2026-03-08T07:00Z', '2026-11-01T06:00Z', '2026-07-01T04:00Z'],
  ['Africa/Cairo', '2026-04-23T22:00Z', '2026-10-29T21:00Z'],
  ['Asia/Kathmandu', '2026-06-30T18:15Z'],
  ['Australia/Lord_Howe', '2026-04-04T15:00Z', '2026-10-03T15:30Z'],
  ['Pacific/Apia', '2011-12-30T10:00Z'],
]

const place = fc
  .constantFrom(...PLACES.flatMap(([zone, ...times]) => times.map((time) => [zone, Date.parse(time)] as const)))
  .map(([zone, timeMs]) => ({ zone, timeMs }))
const gaps = fc.array(fc.oneof(fc.nat(4 * HOUR_MS), fc.nat(40 * DAY_MS), fc.constant(0)), { minLength: 1, maxLength: 40 })
const anyPeriod = fc.constantFrom('1d', '1w', '1mo', '3mo', '1y')
const early = fc.oneof(fc.nat(30 * HOUR_MS), fc.nat(400 * DAY_MS))

test('a quota admits its limit on each day, week, month, quarter and year that clocks show, and names the time of the next one', () => {
  fc.assert(
    fc.property(place, anyPeriod, fc.integer({ min: 1, max: 4 }), early, gaps, ({ zone, timeMs }, period, limit, earlyMs, list) => {
      const clock = { ms: timeMs - earlyMs, nowMs: () => clock.ms, wallMs: () => clock.ms }
      const engine = engineWith({ limit, period, timezone: zone }, clock)
      const admitted = new Map<string, number>()
      const ask = () => {
        const name = shownName(period, zone, clock.ms)
        const before = admitted.get(name) ?? 0
        const decision = engine.decide(new PlainRequestView({ method: 'GET', uri: '/' }))
        if (decision instanceof Promise || decision.action === 'refuse') throw new Error('nothing was decided')
        expect(decision.action).toBe(before < limit ? 'allow' : 'reject')
        if (decision.action === 'allow') admitted.set(name, before + 1)
        return decision
      }
      for (const gapMs of list) {
        clock.ms += gapMs
        const { action, limit: state } = ask()
        if (action === 'allow') continue
        const name = shownName(period, zone, clock.ms)
        clock.ms += state!.resetMs - 1
        expect(shownName(period, zone, clock.ms)).toBe(name)
        ask()
        clock.ms += 1
        expect(shownName(period, zone, clock.ms)).not.toBe(name)
      }
    }),
    { numRuns: runs(20) },
  )
})

function engineWith(config: object, clock: { nowMs(): number; wallMs(): number }): Engine {
  const parsed = parseBundle(JSON.stringify(bundle(1, policy('p', { rules: [windowRule('r', [], config)] }))))
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
  const engine = new Engine({ store: newEmbeddedStore(64 * 1024), clock })
  engine.activate(compileBundle(parsed.bundle))
  return engine
}

const FORMATS = new Map(PLACES.map(([zone]) => [zone, new Intl.DateTimeFormat('en-CA', { timeZone: zone, dateStyle: 'short' })]))

/** The day, or what it is in, as a wall calendar of the place shows it. */
function shownName(period: string, zone: string, wallMs: number): string {
  const date = FORMATS.get(zone)!.format(wallMs)
  const [year, month] = date.split('-')
  if (period === '1d') return date
  if (period === '1w') return String(Math.floor((Date.parse(date) / DAY_MS + 3) / 7))
  if (period === '1mo') return `${year}-${month}`
  return period === '1y' ? year! : `${year} ${Math.ceil(Number(month) / 3)}`
}
