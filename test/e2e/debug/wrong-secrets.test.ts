import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { beforeAll, describe, expect, test } from 'vitest'
import { RawClient } from '../../support/proxy/proxy.ts'
import { sized } from '../../support/run/property-runs.ts'
import type { Edge } from '../../support/service/edge.ts'
import { heldTime } from '../../support/service/held-time.ts'
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
const MAX_DELAY_MS = 1000

const REFUSED = 'edge_debug_logins_total{result="refused"}'

describe('wrong secrets for a debug session', () => {
  const time = heldTime()

  /** Waits while delays pass. */
  async function delayed<Result>(answers: Promise<Result>): Promise<Result> {
    let isDone = false
    void answers.finally(() => {
      isDone = true
    })
    await until(() => {
      time.pass(MAX_DELAY_MS)
      return isDone
    })
    return answers
  }

  test('are refused later and later, up to a second, and with 403 all of them', async () => {
    const edge = await start()
    const answers = await delayed(Promise.all(Array.from({ length: LOGGED }, () => login(edge, 'wrong'))))
    expect(answers.map(({ status }) => status)).toEqual(Array(LOGGED).fill(403))
    for (const { headers } of answers) expect(headers).not.toHaveProperty('set-cookie')
    expect(delays(edge)).toEqual([0, 50, 100, 200, 400, 800, 1000, 1000, 1000, 1000])
    expect(await edge.metric(REFUSED)).toBe(LOGGED)
  })

  test('many on one connection at once are refused all of them and logged ten times, and the right one behind them works', async () => {
    const [edge, count] = [await start(), sized(50, 500)]
    const client = RawClient.connect(edge.port)
    client.send(loginBytes('wrong').repeat(count) + loginBytes(SECRET))
    await delayed(client.sees('HTTP/1.1 204 '))
    const answers = readAnswers(client.received)
    expect(answers.map(({ status }) => status)).toEqual([...Array(count).fill(403), 204])
    expect(delays(edge)).toHaveLength(LOGGED)
    expect(await edge.metric(REFUSED)).toBe(count)
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
    await delayed(Promise.all(wrong))
    expect(delays(edge).slice(LOGGED)).toEqual([0])
    clock.advance(MINUTE_MS)
    await login(edge, 'wrong')
    expect(delays(edge).slice(LOGGED)).toEqual([0, 0])
  })
})

describe('not the secret of debug sessions', () => {
  const clock = new ManualClock()
  const owner = thisSuite()
  let edge: Edge
  beforeAll(async () => {
    edge = await running({ env: { EDGE_DEBUG_SESSION_SECRET: SECRET }, clock }, owner)
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
    expect((await edge.post('/v1/debug/session', fields)).status).toBe(403)
    clock.advance(MINUTE_MS) // or the next one would wait
  })
})

describe('a debug secret', () => {
  test.each([
    ['fifteen characters', 'x'.repeat(15), 1],
    ['fifteen characters of several bytes', 'ü🔑x'.repeat(5), 1],
    ['sixteen characters', 'x'.repeat(16), 0],
  ])('of %s opens a session as its UTF-8 bytes, and is warned of at the start, or not: %s', async (_what, secret, warnings) => {
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
