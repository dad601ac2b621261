import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { beforeAll, describe, expect, test } from 'vitest'
import { RawClient } from '../../support/proxy/proxy.ts'
import type { Edge } from '../../support/service/edge.ts'
import type { Answer, Fields } from '../../support/service/http.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'
import { thisSuite } from '../../support/service/suite-owner.ts'
import { readAnswers } from '../../support/service/wire.ts'
import { until } from '../../support/until.ts'

const SECRET = 'correct horse battery'
const MINUTE_MS = 60_000
/** As many of one peer as are logged in a minute. */
const LOGGED = 10

describe('wrong secrets for a debug session', () => {
  const clock = new ManualClock()
  const owner = thisSuite()
  let refusing: Edge
  beforeAll(async () => {
    refusing = await running({ env: { EDGE_DEBUG_SESSION_SECRET: SECRET }, clock }, owner)
  })

  test('are refused later and later, up to a second, and with 403 all of them', async () => {
    const edge = await start()
    const answers = await Promise.all(Array.from({ length: LOGGED }, () => login(edge, 'wrong')))
    expect(answers.map(({ status }) => status)).toEqual(Array(LOGGED).fill(403))
    for (const { headers } of answers) expect(headers).not.toHaveProperty('set-cookie')
    expect(delays(edge)).toEqual([0, 50, 100, 200, 400, 800, 1000, 1000, 1000, 1000])
    expect(await edge.metric('edge_debug_logins_total{result="refused"}')).toBe(LOGGED)
  })

  test('500 on one connection at once are refused all of them and logged ten times, and the right one behind them works', async () => {
    const edge = await start()
    const client = RawClient.connect(edge.port)
    client.send(loginBytes('wrong').repeat(500) + loginBytes(SECRET))
    await client.sees('HTTP/1.1 204 ')
    const answers = readAnswers(client.received)
    expect(answers.map(({ status }) => status)).toEqual([...Array(500).fill(403), 204])
    expect(edge.logged('debug_session_refused')).toHaveLength(LOGGED)
    expect(await edge.metric('edge_debug_logins_total{result="refused"}')).toBe(500)
  })

  test('of one peer are not those of another, whatever X-Forwarded-For says, and hold up no right one', async () => {
    const clock = new ManualClock()
    const edge = await start(clock)
    const wrong = Array.from({ length: LOGGED + 2 }, (_, i) => login(edge, 'wrong', [['X-Forwarded-For', `203.0.113.${i}`]]))
    await until(() => delays(edge).length === LOGGED)
    expect((await login(edge, SECRET)).status).toBe(204)
    const neighbour = connect({ port: edge.port, host: '127.0.0.1', localAddress: '127.0.0.2' })
    neighbour.end(loginBytes('wrong'))
    expect(await text(neighbour)).toContain(' 403 ')
    await Promise.all(wrong)
    expect(delays(edge).slice(LOGGED)).toEqual([0])
    clock.advance(MINUTE_MS)
    await login(edge, 'wrong')
    expect(delays(edge).slice(LOGGED)).toEqual([0, 0])
  })

  test.each([
    ['none', []],
    ['an empty one', [['X-Edge-Debug-Secret', '']]],
    ['a longer one', [['X-Edge-Debug-Secret', `${SECRET}r`]]],
    ['a shorter one', [['X-Edge-Debug-Secret', SECRET.slice(0, -1)]]],
    ['another case', [['X-Edge-Debug-Secret', SECRET.toUpperCase()]]],
    [
      'the right one twice',
      [
        ['X-Edge-Debug-Secret', SECRET],
        ['X-Edge-Debug-Secret', SECRET],
      ],
    ],
    [
      'the right one and a wrong one',
      [
        ['X-Edge-Debug-Secret', SECRET],
        ['X-Edge-Debug-Secret', 'wrong'],
      ],
    ],
    ['bytes beyond ASCII', [['X-Edge-Debug-Secret', '\xff\xfe']]],
    ['30 KB', [['X-Edge-Debug-Secret', 'x'.repeat(30_000)]]],
    ['the right one as a bearer token', [['Authorization', `Bearer ${SECRET}`]]],
  ] as const)('%s: 403', async (_what, fields) => {
    expect((await refusing.post('/v1/debug/session', fields)).status).toBe(403)
    clock.advance(MINUTE_MS) // or the next one would wait
  })

  test('a secret beyond ASCII opens a session as its UTF-8 bytes', async () => {
    const edge = await running({ env: { EDGE_DEBUG_SESSION_SECRET: 'Schlüssel 🔑' } })
    const bytes = Buffer.from('Schlüssel 🔑').toString('latin1')
    expect((await login(edge, bytes)).status).toBe(204)
  })
})

describe('a debug secret', () => {
  test.each([
    ['fifteen characters', 'x'.repeat(15), 1],
    ['fifteen characters of several bytes', 'ü🔑x'.repeat(5), 1],
    ['sixteen characters', 'x'.repeat(16), 0],
  ])('of %s is warned of at the start, or not: %s', async (_what, secret, warnings) => {
    const edge = await running({ env: { EDGE_DEBUG_SESSION_SECRET: secret } })
    expect(edge.logged('debug_secret_short')).toHaveLength(warnings)
    expect(JSON.stringify(edge.log)).not.toContain(secret)
    expect((await login(edge, Buffer.from(secret).toString('latin1'))).status).toBe(204)
  })
})

function start(clock = new ManualClock()): Promise<Edge> {
  return running({ env: { EDGE_DEBUG_SESSION_SECRET: SECRET }, clock })
}

function login(edge: Edge, secret: string, fields: Fields = []): Promise<Answer> {
  return edge.post('/v1/debug/session', [['X-Edge-Debug-Secret', secret], ...fields])
}

function loginBytes(secret: string): string {
  return `POST /v1/debug/session HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nX-Edge-Debug-Secret: ${secret}\r\n\r\n`
}

/** The delays that were asked for, as the log tells them. */
function delays(edge: Edge): number[] {
  return edge.log.filter(({ event }) => event === 'debug_session_refused').map((line) => line['delay_ms'] as number)
}
