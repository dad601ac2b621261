import { afterAll, beforeAll, expect, test } from 'vitest'
import { bucketRule, bundle, jwt, policy } from '../support/bundles/bundles.ts'
import { Edge } from '../support/service/edge.ts'
import { exchange, type Fields } from '../support/service/http.ts'
import { ManualClock } from '../support/service/manual-clock.ts'
import { debugFacts, logIn, SECRET_ENV } from './debug-login.ts'

/** Specification: Endpoints; what POST /v1/decision reads, and what it leaves alone. */

let edge: Edge

beforeAll(async () => {
  const on = (path: string, selector: object, ...keys: string[]) =>
    policy(path, { selector: { pathPrefix: `/${path}`, ...selector }, rules: [bucketRule(path, keys, 1)] })
  edge = await Edge.start({
    clock: new ManualClock(),
    env: SECRET_ENV,
    bundle: bundle(
      1,
      on('writes', { methods: ['PUT'] }),
      on('search', {}),
      on('hosted', { hosts: ['api.example.com'] }),
      on('claims', {}, 'jwt:sub'),
      on('addresses', {}, 'ip:address'),
      on('countries', {}, 'ip:country'),
      on('types', {}, 'ip:type'),
      on('tor', {}, 'ip:tor'),
      on('headers', {}, 'header:x-anything'),
    ),
  })
})

afterAll(() => edge.stop())

/** Whether two requests to a path with room for one share its bucket. */
async function areOne(uri: string, first: Fields, second: Fields): Promise<boolean> {
  expect((await edge.decide({ uri, fields: first })).status).toBe(200)
  return (await edge.decide({ uri, fields: second })).status === 429
}

test('[decision-1] the request body is not read: the answer comes although the body never does', async () => {
  const head = ['POST /v1/decision HTTP/1.1', 'Host: edge', 'Connection: close', 'Content-Length: 1000000']
  const original = ['X-Original-Method: GET', 'X-Original-URI: /unlimited']
  const answer = await exchange(edge.port, `${[...head, ...original].join('\r\n')}\r\n\r\n`)
  expect(answer).toMatch(/^HTTP\/1\.1 200 OK\r\n/)
})

test('[decision-2] X-Original-Method is required, and is the method that policies see', async () => {
  const without = await edge.post('/v1/decision', [['X-Original-URI', '/writes']])
  expect([without.status, without.headers['x-edge-reason']]).toEqual([400, 'missing_original_method'])
  const [read, write] = [await edge.decide({ uri: '/writes', method: 'GET' }), await edge.decide({ uri: '/writes', method: 'PUT' })]
  expect([read.headers['ratelimit-limit'], write.headers['ratelimit-limit']]).toEqual([undefined, '1'])
})

test('[decision-3] X-Original-URI is required, and may carry a query string', async () => {
  const without = await edge.post('/v1/decision', [['X-Original-Method', 'GET']])
  expect([without.status, without.headers['x-edge-reason']]).toEqual([400, 'missing_original_uri'])
  const uris = ['/search?q=a/b&path=/other', '/search?q=something+else']
  const answers = [await edge.decide({ uri: uris[0]! }), await edge.decide({ uri: uris[1]! })]
  expect(answers.map(({ status }) => status)).toEqual([200, 429])
})

test('[decision-4] X-Original-Host is required where a policy uses selector hosts, and nowhere else', async () => {
  const hosted = await edge.decide({ uri: '/hosted' })
  expect([hosted.status, hosted.headers['x-edge-reason']]).toEqual([400, 'missing_original_host'])
  expect((await edge.decide({ uri: '/hosted', host: 'api.example.com' })).headers['ratelimit-limit']).toBe('1')
  expect((await edge.decide({ uri: '/elsewhere' })).status).toBe(200)
})

test('[decision-5] Authorization may be absent; its bearer JWT feeds jwt:<claim>', async () => {
  expect(await edge.decideTimes(2, { uri: '/claims' })).toEqual([200, 200])
  const bearer = (sub: string): Fields => [['Authorization', `Bearer ${jwt({ sub })}`]]
  expect(await areOne('/claims', bearer('ann'), bearer('ann'))).toBe(true)
  expect(await areOne('/claims', bearer('ben'), bearer('cora'))).toBe(false)
})

test('[decision-6] X-Forwarded-For may be absent; it feeds ip:address and ip:country', async () => {
  expect(await edge.decideTimes(2, { uri: '/addresses' })).toEqual([200, 200])
  expect(await edge.decideTimes(2, { uri: '/countries' })).toEqual([200, 200])
  const from = (address: string): Fields => [['X-Forwarded-For', address]]
  expect(await areOne('/addresses', from('203.0.113.1'), from('203.0.113.1'))).toBe(true)
  expect(await areOne('/addresses', from('203.0.113.2'), from('203.0.113.3'))).toBe(false)
  expect(await areOne('/countries', from('8.8.8.8'), from('8.8.4.4'))).toBe(true)
  expect(await areOne('/countries', from('5.9.0.1'), from('133.11.0.1'))).toBe(false)
})

test('[decision-7] X-ASN-Type may be absent; it is the fallback for ip:type', async () => {
  expect(await edge.decideTimes(2, { uri: '/types' })).toEqual([200, 200])
  const type = (text: string): Fields => [['X-ASN-Type', text]]
  expect(await areOne('/types', type('isp'), type('isp'))).toBe(true)
  expect(await areOne('/types', type('hosting'), type('business'))).toBe(false)
})

test('[decision-8] X-Tor-Exit may be absent; it sets ip:tor', async () => {
  expect(await edge.decideTimes(2, { uri: '/tor' })).toEqual([200, 200])
  const exit = (text: string): Fields => [['X-Tor-Exit', text]]
  expect(await areOne('/tor', exit('yes'), exit('1'))).toBe(true)
  expect(await edge.decideTimes(1, { uri: '/tor', fields: exit('no') })).toEqual([200])
})

test('[decision-9] any other header may be absent; it is used where a policy has a header:<name> key', async () => {
  expect(await edge.decideTimes(2, { uri: '/headers' })).toEqual([200, 200])
  const anything = (text: string): Fields => [['X-Anything', text]]
  expect(await areOne('/headers', anything('red'), anything('red'))).toBe(true)
  expect(await areOne('/headers', anything('green'), anything('blue'))).toBe(false)
})

test('[decision-10] the cookie edge_dbg activates the debug headers, among other cookies too', async () => {
  const { pair } = await logIn(edge)
  const facts = debugFacts(await edge.decide({ uri: '/elsewhere', fields: [['Cookie', `theme=dark; ${pair}; lang=en`]] }))
  expect(facts).toMatchObject({ decision: 'allow', reason: 'all_rules_passed' })
})
