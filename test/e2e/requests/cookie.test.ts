import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { Edge } from '../../support/service/edge.ts'
import { exchange, type Fields } from '../../support/service/http.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'
import { decisionBytes, original, readAnswers } from '../../support/service/wire.ts'

const SECRET = 'a secret for tests'
const OTHER_SECRET = 'another secret'
const BUNDLE = bundle(1, policy('p', { rules: [bucketRule('r', [], 100_000)] }))
const MINUTES = 60_000

describe('a debug cookie', () => {
  let edge: Edge
  let value: string
  beforeAll(async () => {
    edge = await start()
    value = await login(edge)
  })
  afterAll(() => edge.stop())

  test('that is genuine opens the debug headers, so that the tests below can fail', async () => {
    expect(await isDebug(edge, [['Cookie', `edge_dbg=${value}`]])).toBe(true)
  })

  test('with any one character changed is worth nothing', async () => {
    const changed = [...value].map((char, i) => `${value.slice(0, i)}${char === 'A' ? 'B' : 'A'}${value.slice(i + 1)}`)
    const bytes = changed.map((cookie, i) =>
      decisionBytes(original('/', ['Cookie', `edge_dbg=${cookie}`]), { isLast: i === changed.length - 1 }),
    )
    const answers = readAnswers(await exchange(edge.port, Buffer.concat(bytes)))
    expect(answers).toHaveLength(value.length)
    expect(answers.filter(({ status, headers }) => status !== 200 || 'x-edge-debug-decision' in headers)).toEqual([])
  })

  test('cut short, drawn out or spelled another way is worth nothing', async () => {
    const forged = [
      value.slice(0, -1),
      value.slice(1),
      `${value}A`,
      `${value}==`,
      `${value}${value}`,
      `"${value}"`,
      `${value.slice(0, 20)} ${value.slice(20)}`,
      encodeURIComponent(`${value}=`),
      value.toUpperCase(),
      'A'.repeat(value.length),
      Buffer.alloc(54).toString('base64url'),
      Buffer.alloc(54, 0xff).toString('base64url'),
    ]
    for (const cookie of forged)
      expect({ cookie, isDebug: await isDebug(edge, [['Cookie', `edge_dbg=${cookie}`]]) }).toEqual({ cookie, isDebug: false })
  })

  test('under another name, or in another header, is worth nothing', async () => {
    for (const field of [`Edge_Dbg=${value}`, `edge_dbg2=${value}`, `xedge_dbg=${value}`, `edge_dbg`, value, `=${value}`]) {
      expect({ field, isDebug: await isDebug(edge, [['Cookie', field]]) }).toEqual({ field, isDebug: false })
    }
    expect(await isDebug(edge, [['X-Edge-Debug-Secret', SECRET]])).toBe(false)
    expect(await isDebug(edge, [['Edge_Dbg', value]])).toBe(false)
  })

  test('among other cookies, well-formed or not, is found', async () => {
    for (const field of [
      `a=1; edge_dbg=${value}; b=2`,
      `edge_dbg=${value};`,
      `;;;  =; a; ="; edge_dbg=${value}`,
      `edge_dbg=garbage; edge_dbg=${value}`,
      `\xff\xfe=\x80; edge_dbg=${value}`,
    ]) {
      expect({ field, isDebug: await isDebug(edge, [['Cookie', field]]) }).toEqual({ field, isDebug: true })
    }
    const split: Fields = [
      ['Cookie', 'a=1'],
      ['cookie', `edge_dbg=${value}`],
    ]
    expect(await isDebug(edge, split)).toBe(true)
  })

  test('garbage of all kinds leaves the decision as it is', async () => {
    const garbage = [
      '',
      ';',
      '=',
      '===;;;===',
      'a',
      '\xff',
      '"',
      'edge_dbg=',
      'edge_dbg==',
      'edge_dbg=;edge_dbg=',
      'x'.repeat(30_000),
      ';'.repeat(30_000),
    ]
    for (const field of [...garbage, Array(2000).fill('edge_dbg=AAAA').join(';'), '__proto__=1; constructor=2']) {
      expect(await isDebug(edge, [['Cookie', field]])).toBe(false)
    }
  })

  test('of an instance with another secret is worth nothing, of one with the same secret it opens the headers', async () => {
    const foreign = await start(OTHER_SECRET)
    const twin = await start()
    expect(await isDebug(foreign, [['Cookie', `edge_dbg=${value}`]])).toBe(false)
    expect(await isDebug(edge, [['Cookie', `edge_dbg=${await login(foreign, OTHER_SECRET)}`]])).toBe(false)
    expect(await isDebug(twin, [['Cookie', `edge_dbg=${value}`]])).toBe(true)
    await Promise.all([foreign.stop(), twin.stop()])
  })
})

test('a debug cookie is worth nothing after 15 minutes', async () => {
  const clock = new ManualClock()
  const edge = await running({ bundle: BUNDLE, clock, env: { EDGE_DEBUG_SESSION_SECRET: SECRET } })
  const cookie = ['Cookie', `edge_dbg=${await login(edge)}`] as const
  clock.advance(15 * MINUTES - 1000)
  expect(await isDebug(edge, [cookie])).toBe(true)
  clock.advance(1000)
  expect(await isDebug(edge, [cookie])).toBe(false)
})

test('a cookie that logged out is worth nothing, others still are, and logging out twice or with garbage is no error', async () => {
  const edge = await running({ bundle: BUNDLE, clock: new ManualClock(), env: { EDGE_DEBUG_SESSION_SECRET: SECRET } })
  const [one, other] = [await login(edge), await login(edge)]
  for (const field of [`edge_dbg=${one}`, `edge_dbg=${one}`, 'edge_dbg=garbage', ';;=', '']) {
    const answer = await edge.post('/v1/debug/logout', [['Cookie', field]])
    expect(answer.status).toBe(204)
    expect(answer.headers['set-cookie']).toMatch(/^edge_dbg=; Max-Age=0;/)
  }
  expect((await edge.post('/v1/debug/logout')).status).toBe(204)
  expect(await isDebug(edge, [['Cookie', `edge_dbg=${one}`]])).toBe(false)
  expect(await isDebug(edge, [['Cookie', `edge_dbg=${other}`]])).toBe(true)
})

test('without a secret no cookie opens anything', async () => {
  const edge = await running({ bundle: BUNDLE })
  const twin = await running({ bundle: BUNDLE, env: { EDGE_DEBUG_SESSION_SECRET: SECRET } })
  expect(await isDebug(edge, [['Cookie', `edge_dbg=${await login(twin)}`]])).toBe(false)
  expect((await edge.post('/v1/debug/session', [['X-Edge-Debug-Secret', SECRET]])).status).toBe(404)
  expect((await edge.post('/v1/debug/logout')).status).toBe(404)
})

function start(secret = SECRET): Promise<Edge> {
  return Edge.start({ bundle: BUNDLE, clock: new ManualClock(), env: { EDGE_DEBUG_SESSION_SECRET: secret } })
}

async function login(edge: Edge, secret = SECRET): Promise<string> {
  const answer = await edge.post('/v1/debug/session', [['X-Edge-Debug-Secret', secret]])
  return /edge_dbg=([^;]+)/.exec(answer.headers['set-cookie']!)![1]!
}

/** Whether the answer has debug headers: all of them or none. */
async function isDebug(edge: Edge, fields: Fields): Promise<boolean> {
  const [answer] = readAnswers(await exchange(edge.port, decisionBytes(original('/', ...fields), { isLast: true })))
  expect(answer!.status).toBe(200)
  const names = Object.keys(answer!.headers).filter((name) => name.startsWith('x-edge-debug'))
  expect([0, 7]).toContain(names.length)
  return names.length > 0
}
