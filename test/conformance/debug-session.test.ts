import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../support/bundles/bundles.ts'
import { Edge } from '../support/service/edge.ts'
import { ManualClock } from '../support/service/manual-clock.ts'
import { debugFacts, logIn, readCookie, SECRET, SECRET_ENV } from './debug-login.ts'

/** Specification: Resources and their fields, Debug cookie; Endpoints, the debug session; Authentication 2 to 4 and 7. */

const BUNDLE = bundle(1, policy('p', { rules: [bucketRule('r', [], 1000)] }))

const clock = new ManualClock()
let edge: Edge
let withoutSecret: Edge

beforeAll(async () => {
  edge = await Edge.start({ clock, env: SECRET_ENV, bundle: BUNDLE })
  withoutSecret = await Edge.start({ clock, bundle: BUNDLE })
})

afterAll(() => Promise.all([edge.stop(), withoutSecret.stop()]))

async function hasDebugHeaders(cookie: string): Promise<boolean> {
  return 'decision' in debugFacts(await edge.decide({ fields: [['Cookie', cookie]] }))
}

describe('the cookie', () => {
  test('[cookie-1] its name is edge_dbg', async () => {
    expect((await logIn(edge)).pair).toMatch(/^edge_dbg=[^;=]+$/)
  })

  test('[cookie-2] its value is opaque: different each time, without a trace of the secret, and of no use when changed', async () => {
    const [one, other] = [await logIn(edge), await logIn(edge)]
    expect(one.value).not.toBe(other.value)
    const readings = [one.value, Buffer.from(one.value, 'base64url').toString('latin1')]
    for (const text of readings) expect(text).not.toContain(SECRET)
    const changed = `${one.value[0] === 'A' ? 'B' : 'A'}${one.value.slice(1)}`
    expect([await hasDebugHeaders(one.pair), await hasDebugHeaders(`edge_dbg=${changed}`)]).toEqual([true, false])
  })

  test('[cookie-3] it is HttpOnly', async () => {
    expect((await logIn(edge)).attributes).toContain('HttpOnly')
  })

  test('[cookie-4] it is Secure', async () => {
    expect((await logIn(edge)).attributes).toContain('Secure')
  })

  test('[cookie-5] it is SameSite=Strict', async () => {
    expect((await logIn(edge)).attributes).toContain('SameSite=Strict')
  })

  test('[cookie-6] its lifetime is 15 minutes, for the browser and for the service', async () => {
    const { pair, attributes } = await logIn(edge)
    expect(attributes.filter((text) => /^(max-age|expires)=/i.test(text))).toEqual(['Max-Age=900'])
    clock.advance(15 * 60_000 - 1)
    expect(await hasDebugHeaders(pair)).toBe(true)
    clock.advance(1)
    expect(await hasDebugHeaders(pair)).toBe(false)
  })
})

describe('POST /v1/debug/session', () => {
  test('[session-1] the secret in X-Edge-Debug-Secret is answered 204 without content, and Set-Cookie edge_dbg', async () => {
    const { status, body, headers } = await edge.post('/v1/debug/session', [['X-Edge-Debug-Secret', SECRET]])
    expect([status, body]).toEqual([204, ''])
    expect(headers['set-cookie']).toMatch(/^edge_dbg=[^;]+; /)
  })

  test('[session-2] the header is required: without it, 403 and no cookie', async () => {
    const { status, headers } = await edge.post('/v1/debug/session')
    expect([status, headers['set-cookie']]).toEqual([403, undefined])
  })

  test('[session-3] a wrong secret is answered 403 and gets no cookie, time and again', async () => {
    for (const wrong of ['wrong', `${SECRET}x`, SECRET.slice(0, -1), SECRET.toUpperCase()]) {
      const { status, headers } = await edge.post('/v1/debug/session', [['X-Edge-Debug-Secret', wrong]])
      expect([status, headers['set-cookie']]).toEqual([403, undefined])
    }
    expect((await logIn(edge)).pair).toMatch(/^edge_dbg=.+/)
  })

  test('[session-4] where no secret is configured it is answered 404, whatever the header says', async () => {
    for (const secret of [SECRET, '', 'undefined']) {
      const { status, headers } = await withoutSecret.post('/v1/debug/session', [['X-Edge-Debug-Secret', secret]])
      expect([status, headers['set-cookie']]).toEqual([404, undefined])
    }
  })

  test('[session-5] the secret comes from EDGE_DEBUG_SESSION_SECRET; an empty one is none', async () => {
    const open = async (secret: string) => {
      const other = await Edge.start({ env: { EDGE_DEBUG_SESSION_SECRET: secret } })
      try {
        return (await other.post('/v1/debug/session', [['X-Edge-Debug-Secret', secret]])).status
      } finally {
        await other.stop()
      }
    }
    expect([await open('another one'), await open('')]).toEqual([204, 404])
  })
})

describe('POST /v1/debug/logout', () => {
  test('[logout-1] it clears the cookie that was sent, with the attributes it was set with', async () => {
    const { pair, attributes } = await logIn(edge)
    const answer = await edge.post('/v1/debug/logout', [['Cookie', pair]])
    const cleared = readCookie(answer)
    expect([answer.status, answer.body, cleared.pair]).toEqual([204, '', 'edge_dbg='])
    expect(cleared.attributes).toEqual(attributes.map((text) => (text === 'Max-Age=900' ? 'Max-Age=0' : text)))
  })

  test('[logout-2] it ends the session of that cookie and no other', async () => {
    const [mine, yours] = [await logIn(edge), await logIn(edge)]
    await edge.post('/v1/debug/logout', [['Cookie', mine.pair]])
    expect([await hasDebugHeaders(mine.pair), await hasDebugHeaders(yours.pair)]).toEqual([false, true])
  })

  test('[logout-3] where no secret is configured it is answered 404', async () => {
    expect((await withoutSecret.post('/v1/debug/logout')).status).toBe(404)
  })
})

test('[session-6] after login the debug headers are missing when the cookie is not forwarded', async () => {
  const { pair } = await logIn(edge)
  expect(debugFacts(await edge.decide())).toEqual({})
  expect(await hasDebugHeaders(pair)).toBe(true)
})
