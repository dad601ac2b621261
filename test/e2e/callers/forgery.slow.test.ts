import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { createEngine, type PlainCaller } from '../../../src/index.ts'
import { parseBundle } from '../../../src/policy/parse.ts'
import { readText, tableRows } from '../../docs/markdown.ts'
import { ADMIN_ENV, askAdmin } from '../../support/admin/admin-client.ts'
import { bucketRule, bundle, matching, policy } from '../../support/bundles/bundles.ts'
import { encoded, jwkOf, keySetText, signedToken, testKey } from '../../support/callers/test-issuer.ts'
import { authorization, check } from '../../support/grpc/ext-authz.ts'
import { rateLimitService, shouldRateLimit } from '../../support/grpc/rate-limit.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { proxying } from '../../support/proxy/proxy.ts'
import { askThrough, HTTP_DOORS } from '../../support/service/doors.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ask, type Fields } from '../../support/service/http.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running, scratchDirectory } from '../../support/service/running.ts'

/** The table "Who can forge what" of the page. A cell of a mode has the outcome at each door that its row names. */
const ROWS = tableRows(readText('docs/callers.md'), ['Attack', 'Rule counts by', 'Door', 'No `callers`', '`shadow`', '`enforce`']).map(
  ([attack, key, doors, ...outcomes]) => ({ attack: attack!, key: key!.slice(1, -1), doors: doors!.split(', ') as Door[], outcomes }),
)
/** By the column of the outcome. Without a mode, callers are read as in shadow mode. */
const MODES = [
  ['none', 0],
  ['shadow', 1],
  ['no mode', 1],
  ['enforce', 2],
] as const

type Door = 'HTTP' | 'gRPC' | 'proxy' | 'library' | 'rate limit service'
type Mode = (typeof MODES)[number][0]
/** `—`: there is no bundle with such a rule. */
type Outcome = 'believed' | 'not believed' | '401' | '—'

const LOGIN = { key: testKey('P-256', 'login-1'), issuer: 'https://login.example.com' }
const PARTNER = { key: testKey('P-256', 'partner-1'), issuer: 'https://partner.example.com' }
const STRANGER = testKey('P-256', 'login-1')
const CLAIMS = { aud: 'api', exp: 4_000_000_000 }
const BOSS = { ...CLAIMS, iss: LOGIN.issuer, sub: 'boss', team: 'staff' }
const ADA = { ...CLAIMS, iss: LOGIN.issuer, sub: 'ada', team: 'search' }

/** What the rule of `staff` matches, by the key that it counts by. */
const STAFF: Readonly<Record<string, string>> = {
  'header:x-team': 'staff',
  'caller:team': 'staff',
  'jwt:team': 'staff',
  'caller:id': 'login:boss',
  'jwt:sub': 'boss',
  'ip:address': '203.0.113.7',
  'descriptor:team': 'staff',
}

/** What an attacker sends: each in a request of its own, and each with the same outcome. */
interface Attack {
  readonly requests: (edge: Edge) => Promise<readonly Fields[]> | readonly Fields[]
  /** Whom a program that uses the library has verified, or says it has. */
  readonly caller?: PlainCaller
}

const ATTACKS: Readonly<Record<string, Attack>> = {
  'A header of a stranger: `X-Team: staff`': { requests: () => [[['X-Team', 'staff']]] },
  'A header of a verified caller: `X-Team: staff`': {
    requests: () => [[['X-Team', 'staff'], ...bearer(signedToken('ES256', LOGIN.key, ADA))]],
    caller: { id: 'login:ada', labels: { team: 'search' } },
  },
  'A forged token': {
    requests: () => [
      bearer(`${encoded('{"alg":"none"}')}.${encoded(JSON.stringify(BOSS))}.`),
      bearer(signedToken('ES256', STRANGER, BOSS)),
      bearer(signedToken('ES256', STRANGER, BOSS, { jwk: jwkOf(STRANGER) })),
    ],
  },
  'A stolen token': { requests: () => [bearer(signedToken('ES256', LOGIN.key, BOSS))] },
  'A stolen key': { requests: async (edge) => [[['X-Api-Key', (await issuedKey(edge)).key]]] },
  'A revoked key': {
    requests: async (edge) => {
      const { id, key } = await issuedKey(edge)
      expect((await askAdmin(edge.adminPort, 'DELETE', `keys/${id}?reason=stolen`)).status).toBeLessThan(300)
      return [[['X-Api-Key', key]]]
    },
  },
  'The key of a compromised issuer, for its own subjects': {
    requests: () => [bearer(signedToken('ES256', PARTNER.key, { ...BOSS, iss: PARTNER.issuer }))],
  },
  'The key of a compromised issuer, in the name of another issuer': {
    requests: () => [bearer(signedToken('ES256', PARTNER.key, BOSS, { kid: LOGIN.key.kid }))],
  },
  'The key of a compromised issuer, for a `sub` of another issuer': {
    requests: () => [
      bearer(signedToken('ES256', PARTNER.key, { ...BOSS, iss: PARTNER.issuer })),
      bearer(signedToken('ES256', PARTNER.key, { ...BOSS, iss: PARTNER.issuer, name: 'login', id: 'login:boss' })),
    ],
  },
  "Direct access to the decision port, in the name of a client's address": { requests: () => [[['X-Forwarded-For', '203.0.113.7']]] },
  'Direct access to the decision port, in the name of a team': {
    requests: () => [
      [
        ['X-Edge-Caller', 'login:boss'],
        ['X-Edge-Debug-Caller', 'login:boss'],
        ['X-Caller-Team', 'staff'],
        ['Caller', 'team=staff'],
      ],
    ],
  },
  'A header that Envoy makes a descriptor, or direct access to the gRPC port': { requests: () => [[]] },
  'A caller that your program names without having verified it': {
    requests: () => [[]],
    caller: { id: 'login:boss', labels: { team: 'staff' } },
  },
}

test('every attack of the table is tried, and no other', () => {
  expect([...new Set(ROWS.map(({ attack }) => attack))].sort()).toEqual(Object.keys(ATTACKS).sort())
})

describe.each(ROWS)('$attack, where a rule counts by $key', ({ attack, key, doors, outcomes }) => {
  const cases = MODES.flatMap(([mode, column]) => doors.map((door) => ({ mode, door, outcome: outcomes[column] as Outcome })))

  test.each(cases)('callers: $mode; at the door $door: $outcome', async ({ mode, door, outcome }) => {
    const text = bundleOf(key, mode, door)
    if (outcome === '—') expect(parseBundle(JSON.stringify(text)).ok).toBe(false)
    else expect(await outcomesAt(door, text, ATTACKS[attack]!)).toEqual([outcome])
  })
})

/** Staff may do 1,000, and everybody else 100. */
function bundleOf(key: string, mode: Mode, door: Door): object {
  const staff = matching({ [key]: STAFF[key]! }, bucketRule('staff', [key], 1000))
  const others = matching('else', bucketRule('others', door === 'rate limit service' ? [key] : [], 100))
  const rules = bundle(1, policy('p', { ...(door === 'rate limit service' && { selector: { domain: 'd' } }), rules: [staff, others] }))
  if (mode === 'none') return rules
  const jwt = Object.entries({ login: LOGIN, partner: PARTNER }).map(([name, { issuer }]) => ({
    ...{ name, issuer, audiences: ['api'], jwks_file: `${name}.json` },
    labels: { team: { claim: 'team', default: 'none' } },
  }))
  return { ...rules, callers: { ...(mode !== 'no mode' && { mode }), jwt, keys: { from: ['header:x-api-key'] } } }
}

/** The different outcomes of all requests of an attack, at all doors of this kind. */
async function outcomesAt(door: Door, text: object, attack: Attack): Promise<Outcome[]> {
  const outcomes: Outcome[] = []
  if (door === 'library') {
    const engine = createEngine({ storeBytes: 1 << 20, clock: new ManualClock() })
    expect(engine.load(JSON.stringify(text))).toMatchObject({ ok: true })
    for (const fields of await attack.requests(undefined as never)) {
      const { caller } = attack
      const decision = engine.decide({ method: 'GET', uri: '/', headers: Object.fromEntries(fields) }, caller && { caller })
      outcomes.push(decision.action === 'refuse' ? outcomeOf(decision.reason) : outcomeOf(decision.limit?.rule.name))
    }
    return [...new Set(outcomes)]
  }
  const edge = await started(door, text)
  for (const fields of await attack.requests(edge)) {
    if (door === 'HTTP') {
      for (const each of HTTP_DOORS) outcomes.push(answered(await askThrough(each, edge.port, { host: 'a.test', fields })))
    } else if (door === 'gRPC') outcomes.push(answered(await check(authorization(edge.grpcPort), { fields })))
    else if (door === 'proxy') outcomes.push(answered(await ask(edge.port, 'GET', '/', fields)))
    else outcomes.push(outcomeOf((await shouldRateLimit(rateLimitService(edge.grpcPort), ['team=staff'])).statuses[0]?.split(' ')[1]))
  }
  return [...new Set(outcomes)]
}

async function started(door: Door, text: object): Promise<Edge> {
  const secrets = await scratchDirectory()
  for (const [name, { key }] of Object.entries({ login: LOGIN, partner: PARTNER }))
    await writeFile(join(secrets, `${name}.json`), keySetText(jwkOf(key)))
  const options = { bundle: text, clock: new ManualClock() }
  const env = { ...ADMIN_ENV, EDGE_SECRETS_DIR: secrets }
  if (door === 'proxy') return proxying(await HttpBackend.start(), { ...options, env })
  return running({ ...options, env: { ...env, EDGE_GRPC_PORT: '0' } })
}

async function issuedKey(edge: Edge): Promise<{ id: string; key: string }> {
  const { status, json } = await askAdmin(edge.adminPort, 'POST', 'keys', { body: { labels: { team: 'staff' }, reason: 'a test' } })
  expect(status).toBe(201)
  return json as { id: string; key: string }
}

function answered({ status, headers }: { status: number; headers: Readonly<Record<string, string | string[] | undefined>> }): Outcome {
  const limit = headers['ratelimit-limit']
  return outcomeOf(status === 200 ? (limit === '1000' ? 'staff' : 'others') : String(headers['x-edge-reason']))
}

function outcomeOf(ruleOrReason: string | undefined): Outcome {
  if (ruleOrReason === 'staff') return 'believed'
  if (ruleOrReason === 'others') return 'not believed'
  if (ruleOrReason === 'unknown_caller') return '401'
  throw new Error(`neither decided nor refused for its caller: ${ruleOrReason}`)
}

function bearer(token: string): Fields {
  return [['Authorization', `Bearer ${token}`]]
}
