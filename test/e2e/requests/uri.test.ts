import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { Edge } from '../../support/service/edge.ts'
import { exchange } from '../../support/service/http.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { decisionBytes, original, readAnswers } from '../../support/service/wire.ts'

const LONG = 'x'.repeat(8 * 1024)

/** As bytes: a character of these texts is one byte on the wire. */
const LIMITED_BY_API = [
  '/api',
  '/api/',
  '/api?key=value',
  '/api#fragment',
  '/api/x',
  '//api',
  '///api//x',
  '/./api',
  '/x/../api',
  '/x/%2e%2e/api',
  '/x/.%2E/api',
  '/../../../api',
  '/%61pi',
  '/%61%70%69/x',
  '/api/..x',
  '/api/%00',
  '/api/\xff\xfe',
  '/api/%',
  '/api/%zz',
  '/api/%c3%a9',
  'http://a.example.com/api',
  'https://user:pass@a.example.com:8443//api?x',
  'HTTP://A.EXAMPLE.COM/api',
  'api',
  `/api/${LONG}`,
  `/api?${LONG}`,
  `${'/..'.repeat(2000)}/api`,
  `${'/x/..'.repeat(1500)}/api`,
  `${'/'.repeat(8 * 1024)}api`,
]

const NOT_LIMITED = [
  '/',
  '*',
  '/apix',
  '/API',
  '/api%00',
  '/api%2Fx',
  '/api\xe9',
  '/x/api',
  '/api/../x',
  '/api/%2e%2e',
  '/%2561pi',
  '/%%361pi',
  '/api;x',
  'http://api',
  'api.example.com:443',
  `/${LONG}`,
  `/api${LONG}`,
  `/${'%00'.repeat(2700)}`,
  `/${'\xff'.repeat(8 * 1024)}`,
]

describe('a URI of whatever shape', () => {
  let edge: Edge
  beforeAll(async () => {
    edge = await Edge.start({
      bundle: bundle(
        1,
        policy('api', { selector: { pathPrefix: '/api' }, rules: [bucketRule('api', [], 1000)] }),
        policy('accents', { selector: { pathPrefix: '/café' }, rules: [bucketRule('accents', [], 1000)] }),
      ),
      clock: new ManualClock(),
    })
  })
  afterAll(() => edge.stop())

  test.each(LIMITED_BY_API.map(shown))('%s is limited as /api', async (_shown, uri) => {
    expect(await limitOf(uri)).toBe('"api"')
  })

  test.each(NOT_LIMITED.map(shown))('%s is not /api', async (_shown, uri) => {
    expect(await limitOf(uri)).toBeUndefined()
  })

  test.each(['/caf\xc3\xa9', '/caf%C3%A9', '/caf%c3%a9/x', '/caf\xc3%A9'])('the bytes of %j are limited as /café', async (uri) => {
    expect(await limitOf(uri)).toBe('"accents"')
  })

  test('/café in another encoding is another path', async () => {
    expect(await limitOf('/caf\xe9')).toBeUndefined()
  })

  test('none of them costs more or less than one token', async () => {
    const before = Number((await edge.decide({ uri: '/api' })).headers['ratelimit-remaining'])
    for (const uri of [...LIMITED_BY_API, ...NOT_LIMITED]) await limitOf(uri)
    const after = Number((await edge.decide({ uri: '/api' })).headers['ratelimit-remaining'])
    expect(before - after).toBe(LIMITED_BY_API.length + 1)
  })

  test('its path is no label', async () => {
    await limitOf('/api/secret-path')
    expect((await edge.get('/metrics')).body).not.toContain('secret-path')
  })

  /** The rule that the answer names. */
  async function limitOf(uri: string): Promise<string | undefined> {
    const [answer] = readAnswers(await exchange(edge.port, decisionBytes(original(uri), { isLast: true })))
    expect(answer!.status).toBe(200)
    return answer!.headers['ratelimit']?.split(';')[0]
  }
})

function shown(uri: string): [string, string] {
  return [uri.length > 40 ? `${JSON.stringify(uri.slice(0, 20))} … (${uri.length} bytes)` : JSON.stringify(uri), uri]
}
