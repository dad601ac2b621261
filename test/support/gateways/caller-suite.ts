import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
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
}

function bearer(token: string): Fields {
  return [['Authorization', `Bearer ${token}`]]
}

function challenge({ status, headers }: Answer): unknown[] {
  return [status, headers['www-authenticate'], headers['x-edge-reason']]
}

/** An edge that demands callers, and allows each team one request. */
export async function edgeThatKnows(whom: 'search' | 'nobody'): Promise<Edge> {
  const secrets = await scratchDirectory()
  if (whom !== 'nobody') await writeFile(join(secrets, 'login.json'), keySetText(jwkOf(KEY)))
  const issuer = { name: 'login', issuer: CLAIMS.iss, audiences: ['api'], jwks_file: 'login.json', labels: { team: { claim: 'team' } } }
  const rules = bundle(1, policy('teams', { rules: [bucketRule('team', ['caller:team'], 1)] }))
  return startEdge({
    bundle: { ...rules, callers: { mode: 'enforce', jwt: [issuer] } },
    clock: new ManualClock(),
    env: { EDGE_SECRETS_DIR: secrets },
  })
}
