import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ADMIN_ENV, askAdmin } from '../admin/admin-client.ts'
import { bucketRule, bundle, policy } from '../bundles/bundles.ts'
import { encoded, jwkOf, keySetText, signedToken, testKey } from '../callers/test-issuer.ts'
import type { Edge } from '../service/edge.ts'
import { type Answer, ask, type Fields } from '../service/http.ts'
import { ManualClock } from '../service/manual-clock.ts'
import { scratchDirectory } from '../service/running.ts'
import type { Gateway } from './gateway.ts'
import { behind, startEdge } from './gateway-setup.ts'

const KEY = testKey('P-256')
const OTHER_KEY = testKey('P-256')
const CLAIMS = { iss: 'https://login.example.com', aud: 'api', sub: 'ada', team: 'search', exp: 4_000_000_000 }
const GOOD = bearer(signedToken('ES256', KEY, CLAIMS))

/** What nobody accepts: no signature, the signature of another key, another audience, an old token, no token at all. */
const BAD: readonly Fields[] = [
  bearer(`${encoded('{"alg":"none"}')}.${encoded(JSON.stringify(CLAIMS))}.`),
  bearer(signedToken('ES256', OTHER_KEY, CLAIMS)),
  bearer(signedToken('ES256', KEY, { ...CLAIMS, aud: 'another' })),
  bearer(signedToken('ES256', KEY, { ...CLAIMS, exp: 1_700_000_000 })),
  bearer('nonsense'),
  bearer(''),
]

/** What becomes of callers who are known, and of all others, where the bundle demands that they are. */
export function callerSuite(gateway: Gateway): void {
  test('an unknown caller sees the 401 of edge with WWW-Authenticate and its reason, and reaches nobody', async () => {
    for (const variant of ['fail closed', 'fail open'] as const) {
      const { port, backend } = await behind(gateway, await edgeThatKnows('search'), variant)
      expect(challenge(await ask(port, 'POST', '/v1/chat', [], 'a body'))).toEqual([401, 'Bearer', 'unknown_caller'])
      for (const fields of BAD) {
        const [status, scheme, reason] = challenge(await ask(port, 'GET', '/', fields))
        expect([status, String(scheme).split(' ', 1)[0], reason]).toEqual([401, 'Bearer', 'unknown_caller'])
      }
      // Some gateways refuse a repeated credential themselves.
      expect([400, 401]).toContain((await ask(port, 'GET', '/', [...GOOD, ...bearer('nonsense')])).status)
      expect(backend.seen).toEqual([])
    }
  })

  test('a verified caller gets through, and is limited by its labels', async () => {
    const { port, backend } = await behind(gateway, await edgeThatKnows('search'))
    expect((await ask(port, 'GET', '/', GOOD)).status).toBe(200)
    expect((await ask(port, 'GET', '/', GOOD)).status).toBe(429)
    const another = bearer(signedToken('ES256', KEY, { ...CLAIMS, team: 'support' }))
    expect((await ask(port, 'GET', '/', another)).status).toBe(200)
    expect(backend.seen).toHaveLength(2)
  })

  test('fails open for nobody while the key set is missing', async () => {
    const { port, backend } = await behind(gateway, await edgeThatKnows('nobody'), 'fail open')
    expect(challenge(await ask(port, 'GET', '/', GOOD))).toEqual([401, 'Bearer', 'caller_keys_unavailable'])
    expect(challenge(await ask(port, 'GET', '/'))).toEqual([401, 'Bearer', 'unknown_caller'])
    for (const fields of BAD) expect((await ask(port, 'GET', '/', fields)).status).toBe(401)
    expect(backend.seen).toEqual([])
  })

  test('forwards no key that edge has issued, and every other credential as it was sent', async () => {
    const edge = await edgeThatKnows('everybody')
    const key = await issuedKey(edge)
    const { port, backend } = await behind(gateway, edge)
    for (const fields of [...issuedKeyFields(key), ...unreadKeyFields(key)]) {
      expect((await ask(port, 'POST', '/path?query', [...fields, ['X-Other', 'kept']], 'a body')).status).toBe(200)
      const { url, rawHeaders, headers, ...seen } = backend.seen.at(-1)!
      expect([url, headers['x-other'], String(await seen.body())]).toEqual(['/path?query', 'kept', 'a body'])
      expect(rawHeaders.join()).not.toContain('edge_')
    }
    const others: Fields[] = [
      GOOD,
      bearer('sk-other'),
      [['Authorization', 'Basic eDp5']],
      [['X-Api-Key', 'other']],
      [['Authorization', 'Digest username="edge_service"']],
    ]
    for (const fields of others) {
      expect((await ask(port, 'GET', '/', fields)).status).toBe(200)
      expect(backend.seen.at(-1)!.rawHeaders).toContain(fields[0]![1])
    }
  })

  test('forwards no issued key with a WebSocket', async () => {
    const edge = await edgeThatKnows('everybody')
    const key = await issuedKey(edge)
    const { port, backend } = await behind(gateway, edge)
    const upgrades: string[][] = []
    backend.server.on('upgrade', ({ rawHeaders }, socket) => {
      upgrades.push(rawHeaders)
      socket.end(
        `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: ${ACCEPTED}\r\n\r\n`,
      )
    })
    for (const fields of issuedKeyFields(key)) expect(await upgradeStatus(port, fields)).toBe('101')
    expect(upgrades).toHaveLength(issuedKeyFields(key).length)
    expect(upgrades.join()).not.toContain('edge_')
  })

  // Envoy removes what edge tells it to. The others know what an issued key looks like.
  test.skipIf(gateway.limits.removesKeysWhenTold)('forwards no issued key while edge is gone, either', async () => {
    const edge = await edgeThatKnows('everybody')
    const key = await issuedKey(edge)
    const { port, backend } = await behind(gateway, edge, 'fail open')
    await edge.stop()
    for (const fields of issuedKeyFields(key)) expect((await ask(port, 'GET', '/', fields)).status).toBe(200)
    expect(backend.seen).toHaveLength(issuedKeyFields(key).length)
    expect(backend.seen.map(({ rawHeaders }) => rawHeaders).join()).not.toContain('edge_')
  })
}

/** The ways in which a client may send its key, as far as the bundle reads keys there. */
function issuedKeyFields(key: string): Fields[] {
  return [bearer(key), [['authorization', `BEARER  ${key}`]], [['X-Api-Key', key]], [...bearer(key), ['X-Api-Key', key]]]
}

/** Ways that are no credential to edge. */
function unreadKeyFields(key: string): Fields[] {
  return [key, `Token ${key}`, `Bearer "${key}"`].map((value) => [['Authorization', value]])
}

async function issuedKey(edge: Edge): Promise<string> {
  const { status, json } = await askAdmin(edge.adminPort, 'POST', 'keys', { body: { labels: { team: 'search' }, reason: 'a test' } })
  expect(status).toBe(201)
  return json.key
}

/** The key of RFC 6455 1.3, and what a server makes of it. HAProxy compares them. */
const ASKED = 'dGhlIHNhbXBsZSBub25jZQ=='
const ACCEPTED = 's3pPLMBiTxaQ9kYGzzhZRbK+xOo='

async function upgradeStatus(port: number, fields: Fields): Promise<string | undefined> {
  const socket = connect(port, '127.0.0.1')
  const lines = fields.map(([name, value]) => `${name}: ${value}\r\n`).join('')
  const asks = `Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${ASKED}\r\n`
  socket.write(`GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n${asks}${lines}\r\n`)
  const [data] = (await once(socket, 'data')) as [Buffer]
  socket.destroy()
  return /^HTTP\/1\.1 (\d+)/.exec(String(data))?.[1]
}

function bearer(token: string): Fields {
  return [['Authorization', `Bearer ${token}`]]
}

function challenge({ status, headers }: Answer): unknown[] {
  return [status, headers['www-authenticate'], headers['x-edge-reason']]
}

/** An edge that demands callers and allows each team one request; or one that reads tokens and keys, and lets everybody pass. */
export async function edgeThatKnows(whom: 'search' | 'nobody' | 'everybody'): Promise<Edge> {
  const secrets = await scratchDirectory()
  if (whom !== 'nobody') await writeFile(join(secrets, 'login.json'), keySetText(jwkOf(KEY)))
  const issuer = { name: 'login', issuer: CLAIMS.iss, audiences: ['api'], jwks_file: 'login.json', labels: { team: { claim: 'team' } } }
  const isOpen = whom === 'everybody'
  const rules = bundle(1, policy('teams', { rules: [bucketRule('team', ['caller:team'], isOpen ? 1000 : 1)] }))
  const others = isOpen ? { keys: { from: ['bearer', 'header:x-api-key'] } } : { mode: 'enforce' }
  return startEdge({
    bundle: { ...rules, callers: { jwt: [issuer], ...others } },
    clock: new ManualClock(),
    env: { ...ADMIN_ENV, EDGE_SECRETS_DIR: secrets },
  })
}
