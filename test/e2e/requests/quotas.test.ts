import { describe, expect, type TestContext, test } from 'vitest'
import { offer } from '../../support/bundles/bundle-file.ts'
import { bucketRule, bundle, type PolicyText, policy, windowRule } from '../../support/bundles/bundles.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { proxying } from '../../support/proxy/proxy.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'

const HOUR_S = 3600
const DAY_S = 24 * HOUR_S
/** A manual clock begins at noon, UTC, of 15 January 2026. */
const NOON_MS = Date.UTC(2026, 0, 15, 12)

/** How long after the clock's beginning the window of a quota ends. */
const CALENDAR = [
  ['1m', 'UTC', 60],
  ['15m', 'UTC', 15 * 60],
  ['1h', 'UTC', HOUR_S],
  // a zone whose hours begin at a quarter past
  ['1h', 'Asia/Kathmandu', 15 * 60],
  ['6h', 'America/New_York', 5 * HOUR_S],
  ['1d', 'Europe/Berlin', 11 * HOUR_S],
  // from Thursday at noon to Monday
  ['1w', 'UTC', 3.5 * DAY_S],
  ['1mo', 'UTC', 16.5 * DAY_S],
  // from Thursday at noon to Sunday, to the next Thursday, and to Monday
  ['1w', 'UTC', 2.5 * DAY_S, 'sunday'],
  ['1w', 'UTC', 6.5 * DAY_S, 'thursday'],
  ['1w', 'UTC', 3.5 * DAY_S, 'monday'],
  // the 15th is today, the 16th tomorrow, and the 1st in two weeks
  ['1mo', 'UTC', 30.5 * DAY_S, 15],
  ['1mo', 'Europe/Berlin', 0.5 * DAY_S - HOUR_S, 16],
  ['1mo', 'UTC', 12.5 * DAY_S, 28],
  ['1mo', 'UTC', 16.5 * DAY_S, 1],
  // with an hour less: clocks go forward in March
  ['3mo', 'Europe/Berlin', (16.5 + 28 + 31) * DAY_S - 2 * HOUR_S],
  ['1y', 'UTC', (365 - 14.5) * DAY_S],
] as const satisfies [period: string, timezone: string, untilEndS: number, anchor?: string | number][]

describe.concurrent('a quota', () => {
  test('admits its limit in each window, and says why, how much and until when', async (t) => {
    const clock = new ManualClock()
    const edge = await start(t, clock, quota({ limit: 3, period: '1d' }))
    expect((await call(edge)).headers).toMatchObject({
      'ratelimit-limit': '3',
      'ratelimit-remaining': '2',
      'ratelimit-reset': `${12 * HOUR_S}`,
      ratelimit: `"p";r=2;t=${12 * HOUR_S}`,
    })
    expect(await statuses(edge, 2)).toEqual([200, 200])
    clock.advance(1000)
    const { status, headers } = await call(edge)
    expect(status).toBe(429)
    expect(headers).toMatchObject({
      'x-edge-reason': 'quota_exceeded',
      'retry-after': `${12 * HOUR_S - 1}`,
      'ratelimit-limit': '3',
      'ratelimit-remaining': '0',
      'ratelimit-reset': `${12 * HOUR_S - 1}`,
      ratelimit: `"p";r=0;t=${12 * HOUR_S - 1}`,
    })
    expect(headers).toHaveProperty('x-should-retry', 'false')
    expect(await edge.metric('edge_decisions_total{action="reject",reason="quota_exceeded",policy="p",route="/"}')).toBe(1)
    expect((await call(edge, 'bob')).status).toBe(200)
    clock.advance((12 * HOUR_S - 1) * 1000 - 1)
    expect((await call(edge)).status).toBe(429)
    clock.advance(1)
    expect(await statuses(edge, 4)).toEqual([200, 200, 200, 429])
  })

  test('of any period and time zone ends with the calendar’s window', async (t) => {
    const clock = new ManualClock()
    const policies = CALENDAR.map(([period, timezone, _, anchor], i) => {
      const config = { limit: 1, period, timezone, ...(anchor !== undefined && { anchor }) }
      return policy(`p${i}`, { selector: { pathPrefix: `/${i}` }, rules: [windowRule('r', [], config)] })
    })
    const edge = await start(t, clock, ...policies)
    const ask = (i: number): ReturnType<Edge['decide']> => edge.decide({ uri: `/${i}` })
    const waits: unknown[] = []
    for (const i of CALENDAR.keys()) {
      await ask(i)
      const { headers } = await ask(i)
      waits.push([i, Number(headers['retry-after']), headers['x-edge-reason']])
    }
    expect(waits).toEqual(CALENDAR.map(([, , untilEndS], i) => [i, untilEndS, 'quota_exceeded']))
    let passedS = 0
    for (const endS of [...new Set(CALENDAR.map(([, , untilEndS]) => untilEndS))].sort((a, b) => a - b)) {
      const ending = CALENDAR.flatMap(([, , untilEndS], i) => (untilEndS === endS ? [i] : []))
      clock.advance((endS - passedS) * 1000 - 1)
      for (const i of ending) expect((await ask(i)).status, CALENDAR[i]!.join(' ')).toBe(429)
      clock.advance(1)
      for (const i of ending) expect([(await ask(i)).status, (await ask(i)).status], CALENDAR[i]!.join(' ')).toEqual([200, 429])
      passedS = endS
    }
  })

  test.for([
    ['a day of 23 hours', '2026-03-28T23:00Z', 23],
    ['a day of 25 hours', '2026-10-24T22:00Z', 25],
  ] as const)('of %s lasts as long as that day', async ([_, midnight, hours], t) => {
    const clock = new ManualClock()
    const edge = await start(t, clock, quota({ limit: 2, period: '1d', timezone: 'Europe/Berlin' }))
    clock.advance(Date.parse(midnight) - NOON_MS)
    expect((await call(edge)).headers['ratelimit-reset']).toBe(String(hours * HOUR_S))
    clock.advance(hours * HOUR_S * 1000 - 1)
    expect(await statuses(edge, 2)).toEqual([200, 429])
    clock.advance(1)
    expect(await statuses(edge, 3)).toEqual([200, 200, 429])
  })

  test('takes nothing from other rules when it rejects, nor they from it', async (t) => {
    const clock = new ManualClock()
    const [month, bucket] = [
      windowRule('month', ['header:x-caller'], { limit: 3, period: '1mo' }),
      bucketRule('rate', ['header:x-caller'], 2),
    ]
    const edge = await start(t, clock, policy('p', { rules: [month, bucket] }))
    expect(await statuses(edge, 5)).toEqual([200, 200, 429, 429, 429])
    clock.advance(10_000)
    const answers = [await call(edge), await call(edge)]
    expect(answers.map(({ headers }) => headers['x-edge-reason'])).toEqual([undefined, 'quota_exceeded'])
    // The bucket has one left, and says so to a caller whose month is over.
    clock.advance(17 * DAY_S * 1000)
    expect((await call(edge)).headers['ratelimit-remaining']).toBe('1')
  })

  test('in shadow changes no response, and records what it would reject', async (t) => {
    const shadow = policy('s', { mode: 'shadow', rules: [windowRule('r', [], { limit: 2, period: '1d' })] })
    const edge = await start(t, new ManualClock(), shadow)
    for (let i = 0; i < 5; i++) {
      const { status, headers } = await call(edge)
      expect(status).toBe(200)
      expect(Object.keys(headers).filter((name) => /ratelimit|retry|edge/.test(name))).toEqual([])
    }
    expect(await edge.metric('edge_would_reject_total{policy="s",rule="r",reason="quota_exceeded"}')).toBe(3)
  })

  test('in the proxy tells a rejected client when to come back', async (t) => {
    const backend = await HttpBackend.start(undefined, 0, t)
    const edge = await proxying(backend, { clock: new ManualClock(), bundle: bundle(1, quota({ limit: 1, period: '1h' })) }, t)
    const answers = [await edge.get('/', [['X-Caller', 'a']]), await edge.get('/', [['X-Caller', 'a']])]
    expect(answers.map(({ status }) => status)).toEqual([200, 429])
    expect(answers[0]!.headers).toMatchObject({ 'ratelimit-remaining': '0', 'ratelimit-reset': '3600' })
    expect(JSON.parse(answers[1]!.body)).toEqual({
      error: { message: 'Quota exceeded. Retry in 3600 s.', type: 'rate_limit_error', code: 'quota_exceeded' },
    })
    expect(backend.seen).toHaveLength(1)
  })

  test('in the proxy names the date too, where the wait is longer than an hour', async (t) => {
    const [backend, clock] = [await HttpBackend.start(undefined, 0, t), new ManualClock()]
    const edge = await proxying(backend, { clock, bundle: bundle(1, quota({ limit: 1, period: '1mo', timezone: 'Europe/Berlin' })) }, t)
    const messageAfter = async (ms: number): Promise<string> => {
      clock.advance(ms)
      return JSON.parse((await edge.get('/', [['X-Caller', 'a']])).body).error.message
    }
    expect((await edge.get('/', [['X-Caller', 'a']])).status).toBe(200)
    expect(await messageAfter(0)).toBe('Quota exceeded. Retry in 1422000 s, at 2026-01-31T23:00:00Z.')
    expect(await messageAfter(1_422_000_000 - 3_600_400)).toBe('Quota exceeded. Retry in 3601 s, at 2026-01-31T23:00:00Z.')
    expect(await messageAfter(400)).toBe('Quota exceeded. Retry in 3600 s.')
  })
})

describe.concurrent('after a reload a quota', () => {
  test('with another limit keeps what is used', async (t) => {
    const edge = await start(t, new ManualClock(), quota({ limit: 10, period: '1d' }))
    await statuses(edge, 4)
    await publish(edge, 2, quota({ limit: 100, period: '1d' }))
    expect((await call(edge)).headers).toMatchObject({ 'ratelimit-limit': '100', 'ratelimit-remaining': '95' })
    await publish(edge, 3, quota({ limit: 5, period: '1d' }))
    expect((await call(edge)).headers).toMatchObject({ 'x-edge-reason': 'quota_exceeded', 'ratelimit-limit': '5' })
    await publish(edge, 4, quota({ limit: 6, period: '1d', timezone: 'etc/utc', cost: 1 }))
    expect(await statuses(edge, 2)).toEqual([200, 429])
  })

  test.for([
    ['period', { limit: 10, period: '1w' }],
    ['time zone', { limit: 10, period: '1d', timezone: 'Europe/Berlin' }],
    ['anchor', { limit: 10, period: '1w', anchor: 'sunday' }, { limit: 10, period: '1w' }],
    ['day of the month', { limit: 10, period: '1mo', anchor: 15 }, { limit: 10, period: '1mo', anchor: 5 }],
  ] as const)(
    'with another %s begins anew, and is there again when it comes back',
    async ([_, config, first = { limit: 10, period: '1d' }], t) => {
      const edge = await start(t, new ManualClock(), quota(first))
      await statuses(edge, 4)
      await publish(edge, 2, quota(config))
      expect((await call(edge)).headers['ratelimit-remaining']).toBe('9')
      await publish(edge, 3, quota(first))
      expect((await call(edge)).headers['ratelimit-remaining']).toBe('5')
    },
  )

  test('with the anchor that it has anyway keeps what is used', async (t) => {
    const edge = await start(t, new ManualClock(), quota({ limit: 10, period: '1w' }))
    await statuses(edge, 4)
    await publish(edge, 2, quota({ limit: 10, period: '1w', anchor: 'monday' }))
    expect((await call(edge)).headers['ratelimit-remaining']).toBe('5')
  })

  test('of a bundle that is read on a thread of its own keeps what is used', async (t) => {
    const notes = (note: string): object => ({ note, fill: 'x'.repeat(1024 ** 2) })
    const large = (version: number, limit: number): object => ({
      ...bundle(version, quota({ limit, period: '1mo', timezone: 'Europe/Berlin' })),
      metadata: notes(`version ${version}`),
    })
    const edge = await running({ bundle: large(1, 10), clock: new ManualClock() }, t)
    await statuses(edge, 4)
    expect(await offer(edge, large(2, 10))).toMatchObject({ event: 'bundle_applied' })
    expect((await call(edge)).headers['ratelimit-remaining']).toBe('5')
    expect(await offer(edge, large(3, 6))).toMatchObject({ event: 'bundle_applied' })
    expect(await statuses(edge, 2)).toEqual([200, 429])
  })
})

test.concurrent('a bundle with a quota that makes no sense is refused with every problem, and nothing changes', async (t) => {
  const edge = await start(t, new ManualClock(), quota({ limit: 10, period: '1d' }))
  await statuses(edge, 4)
  const refused = await offer(edge, bundle(2, quota({ limit: 0, period: 'daily', timezone: 'Mars/Olympus' })))
  expect(refused).toMatchObject({ event: 'bundle_refused' })
  expect(JSON.stringify(refused)).toMatch(/limit: expected .*period: expected a period such as 1d.*timezone: expected an IANA time zone/)
  expect((await call(edge)).headers['ratelimit-remaining']).toBe('5')
})

function quota(config: object): PolicyText {
  return policy('p', { rules: [windowRule('r', ['header:x-caller'], config)] })
}

function start(t: TestContext, clock: ManualClock, ...policies: PolicyText[]): Promise<Edge> {
  return running({ bundle: bundle(1, ...policies), clock }, t)
}

async function publish(edge: Edge, version: number, ...policies: PolicyText[]): Promise<void> {
  expect(await offer(edge, bundle(version, ...policies))).toMatchObject({ event: 'bundle_applied', version: String(version) })
}

function call(edge: Edge, caller = 'alice'): ReturnType<Edge['decide']> {
  return edge.decide({ fields: [['X-Caller', caller]] })
}

async function statuses(edge: Edge, times: number): Promise<number[]> {
  return edge.decideTimes(times, { fields: [['X-Caller', 'alice']] })
}
