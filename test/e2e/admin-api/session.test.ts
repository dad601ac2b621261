import { afterEach, beforeAll, describe, expect, test } from 'vitest'
import { ADMIN_ENV, ADMIN_TOKEN, askAdmin } from '../../support/admin/admin-client.ts'
import { askWith, BUNDLE, login, setCookieOf } from '../../support/admin/session.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'
import { thisSuite } from '../../support/service/suite-owner.ts'
import { untilLogged } from '../../support/service/until-logged.ts'

const RESET = { policy: 'p', rule: 'r', reason: 'a test' }
const LIFETIME_S = 8 * 3600

describe('a session', () => {
  const shared = new ManualClock()
  const owner = thisSuite()
  let edge: Edge
  beforeAll(async () => {
    edge = await running({ bundle: BUNDLE, env: ADMIN_ENV, clock: shared }, owner)
  })

  // What is refused counts by the minute.
  afterEach(() => shared.advance(60_000))

  test('is opened by a small body only: anybody may send one', async () => {
    const body = { token: ADMIN_TOKEN, actor: 'a'.repeat(4096) }
    const response = await askAdmin(edge.adminPort, 'POST', 'session', { token: undefined, body })
    expect(response).toMatchObject({
      status: 413,
      json: { error: { code: 'body_too_large', message: 'the body must not be larger than 4 KiB' } },
    })
  })

  test('is opened with the token, and its cookie reads everything', async () => {
    const { response, cookie } = await login(edge.adminPort)
    expect(response.status).toBe(200)
    expect(setCookieOf(response)).toMatch(/^edge_admin=[\w-]+; Max-Age=28800; Path=\/admin\/v1\/; HttpOnly; SameSite=Strict$/)
    expect((await askWith(cookie, edge.adminPort, 'GET', 'status')).status).toBe(200)
    expect(cookie).not.toContain(ADMIN_TOKEN)
    expect(JSON.stringify(edge.log)).not.toContain(ADMIN_TOKEN)
  })

  test('does not tell the cookie alone what changes need', async () => {
    const { response, cookie, csrf } = await login(edge.adminPort)
    const again = await askWith(cookie, edge.adminPort, 'GET', 'session')
    expect([csrf, again.json]).toEqual([expect.stringMatching(/^[\w-]{43}$/), { expires_at: response.json.expires_at, read_only: false }])
  })

  test('needs X-Edge-CSRF for everything but GET', async () => {
    const before = edge.logged('counter_reset').length
    const { cookie, csrf } = await login(edge.adminPort)
    const other = await login(edge.adminPort)
    const reset = (headers: object) => askWith(cookie, edge.adminPort, 'POST', 'counters/reset', headers, RESET)
    for (const headers of [{}, { 'X-Edge-CSRF': '' }, { 'X-Edge-CSRF': other.csrf }, { 'X-Edge-CSRF': `${csrf}x` }, { 'X-CSRF': csrf }])
      expect(await reset(headers)).toMatchObject({ status: 403, json: { error: { code: 'csrf', type: 'permission_error' } } })
    expect((await askWith(cookie, edge.adminPort, 'DELETE', 'session')).status).toBe(403)
    expect(edge.logged('counter_reset')).toHaveLength(before)
    expect((await reset({ 'X-Edge-CSRF': csrf })).status).toBe(200)
  })

  test('changes nothing for a page of another host', async () => {
    const { cookie, csrf } = await login(edge.adminPort)
    const statusFrom = async (headers: object) =>
      (await askWith(cookie, edge.adminPort, 'POST', 'counters/reset', { 'X-Edge-CSRF': csrf, ...headers }, RESET)).status
    const own = `127.0.0.1:${edge.adminPort}`
    for (const Origin of [
      'http://evil.example',
      'null',
      '',
      `http://${own}.evil.example`,
      `http://x@evil.example`,
      own,
      `http://${own} http://${own}`,
    ])
      expect([Origin, await statusFrom({ Origin })]).toEqual([Origin, 403])
    expect(await statusFrom({ Origin: `http://${own}` })).toBe(200)
    expect(await statusFrom({ Origin: `https://${own}` })).toBe(200)
    expect(await statusFrom({ Origin: 'https://edge.example', Host: 'edge.example' })).toBe(200)
    expect(await statusFrom({ Origin: 'https://edge.example', Host: 'edge.example:443' })).toBe(200)
    expect(await statusFrom({ Origin: 'https://edge.example', 'X-Forwarded-Host': 'edge.example' })).toBe(200)
  })

  test('is the actor of its changes, whatever the header says', async () => {
    const { cookie, csrf } = await login(edge.adminPort, {}, 'Zoë\n')
    expect(
      (await askWith(cookie, edge.adminPort, 'POST', 'counters/reset', { 'X-Edge-CSRF': csrf, 'X-Edge-Actor': 'mallory' }, RESET)).status,
    ).toBe(200)
    expect((await untilLogged(edge, 'counter_reset')).at(-1)).toMatchObject({ actor: 'Zoë?' })
    expect((await untilLogged(edge, 'admin_session_opened')).at(-1)).toMatchObject({ actor: 'Zoë?' })
  })

  test('is Secure where the request came by https, as a trusted proxy says', async () => {
    const https = { 'X-Forwarded-Proto': 'https' }
    expect(setCookieOf((await login(edge.adminPort, https)).response)).toMatch(/; Secure$/)
    const wary = await running({ bundle: BUNDLE, env: { ...ADMIN_ENV, EDGE_TRUSTED_PROXIES: '192.0.2.1' } })
    expect(setCookieOf((await login(wary.adminPort, https)).response)).not.toContain('Secure')
  })

  test('ends by itself', async () => {
    const clock = new ManualClock()
    const aging = await running({ bundle: BUNDLE, env: ADMIN_ENV, clock })
    const { cookie, response } = await login(aging.adminPort)
    expect(Date.parse(response.json.expires_at)).toBe(Math.floor(clock.wallMs() / 1000) * 1000 + LIFETIME_S * 1000)
    clock.advance((LIFETIME_S - 1) * 1000)
    expect((await askWith(cookie, aging.adminPort, 'GET', 'status')).status).toBe(200)
    clock.advance(1000)
    expect((await askWith(cookie, aging.adminPort, 'GET', 'status')).status).toBe(401)
  })

  test('cannot be made up, and a wrong token beside it is refused', async () => {
    const { cookie } = await login(edge.adminPort)
    const middle = Math.floor(cookie.length / 2)
    const swapped = cookie[middle] === 'A' ? 'B' : 'A'
    for (const forged of [
      `${cookie}A`,
      cookie.slice(0, -1),
      `${cookie.slice(0, middle)}${swapped}${cookie.slice(middle + 1)}`,
      'edge_admin=',
      `edge_admin=${ADMIN_TOKEN}`,
    ])
      expect((await askWith(forged, edge.adminPort, 'GET', 'status')).status).toBe(401)
    expect((await askWith(`a=b; ${cookie}; c=d`, edge.adminPort, 'GET', 'status')).status).toBe(200)
    expect((await askWith(cookie, edge.adminPort, 'GET', 'status', { Authorization: 'Bearer wrong' })).status).toBe(401)
    const another = await running({ bundle: BUNDLE, env: { ...ADMIN_ENV, EDGE_ADMIN_TOKEN: 'x'.repeat(40) } })
    expect((await askWith(cookie, another.adminPort, 'GET', 'status')).status).toBe(401)
  })

  test('is not opened by a wrong token, which counts as any other', async () => {
    const strict = await running({ bundle: BUNDLE, env: ADMIN_ENV, clock: new ManualClock() })
    const open = (body: unknown) => askAdmin(strict.adminPort, 'POST', 'session', { token: undefined, body })
    const statuses: number[] = []
    for (let i = 0; i < 11; i++) statuses.push((await open({ token: `wrong ${i}` })).status)
    expect(statuses).toEqual([...Array(10).fill(401), 429])
    expect((await askAdmin(strict.adminPort, 'GET', 'status', { token: 'wrong' })).status).toBe(429)
    expect((await open({ token: ADMIN_TOKEN })).status).toBe(200)
    expect(await untilLogged(strict, 'admin_refused', 10)).toHaveLength(10)
    for (const body of [{}, { token: 1 }, { token: ADMIN_TOKEN, actor: 1 }, { token: ADMIN_TOKEN, role: 'x' }])
      expect((await open(body)).status).toBe(400)
  })

  test('does not exist for whoever has the token alone', async () => {
    expect((await askAdmin(edge.adminPort, 'GET', 'session')).status).toBe(401)
    expect((await askAdmin(edge.adminPort, 'DELETE', 'session')).status).toBe(204)
  })
})
