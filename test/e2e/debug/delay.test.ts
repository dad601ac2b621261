import { describe, expect, test } from 'vitest'
import type { Edge } from '../../support/service/edge.ts'
import type { Answer } from '../../support/service/http.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'

const SECRET = 'correct horse'
const FORGET_MS = 60_000

describe('wrong secrets for a debug session', () => {
  test('are refused later and later, up to a second, and with 403 all of them', async () => {
    const edge = await start()
    const answers = await Promise.all(Array.from({ length: 12 }, () => login(edge, 'wrong')))
    expect(answers.map(({ status }) => status)).toEqual(Array(12).fill(403))
    for (const { headers } of answers) expect(headers).not.toHaveProperty('set-cookie')
    const asked = delays(edge)
    expect(asked).toHaveLength(12)
    expect(asked[0]).toBe(0)
    expect(asked[1]).toBeGreaterThan(0)
    expect(asked).toEqual([...asked].sort((a, b) => a - b))
    expect(asked.at(-1)).toBe(1000)
    expect(await edge.metric('edge_debug_logins_total{result="refused"}')).toBe(12)
  })

  test('do not hold up the right one, which ends the delay', async () => {
    const edge = await start()
    for (let i = 0; i < 3; i++) await login(edge, 'wrong')
    expect((await login(edge, SECRET)).status).toBe(204)
    expect((await login(edge, 'wrong')).status).toBe(403)
    expect(delays(edge).at(-1)).toBe(0)
    expect(await edge.metric('edge_debug_logins_total{result="opened"}')).toBe(1)
  })

  test('are forgotten after a quiet minute', async () => {
    const clock = new ManualClock()
    const edge = await start(clock)
    for (let i = 0; i < 3; i++) await login(edge, 'wrong')
    clock.advance(FORGET_MS + 1)
    await login(edge, 'wrong')
    expect(delays(edge)[2]).toBeGreaterThan(0)
    expect(delays(edge)[3]).toBe(0)
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
    const edge = await start()
    expect((await edge.post('/v1/debug/session', fields)).status).toBe(403)
  })

  test('a secret beyond ASCII opens a session as its UTF-8 bytes', async () => {
    const edge = await running({ env: { EDGE_DEBUG_SESSION_SECRET: 'Schlüssel 🔑' } })
    const bytes = Buffer.from('Schlüssel 🔑').toString('latin1')
    expect((await login(edge, bytes)).status).toBe(204)
  })
})

function start(clock = new ManualClock()): Promise<Edge> {
  return running({ env: { EDGE_DEBUG_SESSION_SECRET: SECRET }, clock })
}

function login(edge: Edge, secret: string): Promise<Answer> {
  return edge.post('/v1/debug/session', [['X-Edge-Debug-Secret', secret]])
}

/** The delays that were asked for, as the log tells them. */
function delays(edge: Edge): number[] {
  return edge.log.filter(({ event }) => event === 'debug_session_refused').map((line) => line['delay_ms'] as number)
}
