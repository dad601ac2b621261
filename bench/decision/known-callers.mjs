import { generateKeyPairSync, sign } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { oneRule, policy, rule } from '../support/bundle.mjs'
import { newScratchDirectory } from '../support/scratch.mjs'
import { startEdgeWith } from './edge.mjs'
import { expectToReject, LOW_LIMIT } from './proof.mjs'
import { DECISION } from './requests.mjs'
import { measureInTurns, speedRatio, warmUp } from './rounds.mjs'
import { rowsOf } from './rows.mjs'
import { atMost } from './targets.mjs'

const ENTRY = { name: 'idp', issuer: 'https://idp.example/', audiences: ['api'], jwks_file: 'idp.json' }

/** What a decision costs for a caller with a verified RS256 token that is remembered, beside the same request where nobody is verified. */
export async function measureKnownCallers(load, plan) {
  console.error('a verified token')
  const { token, secrets } = newIssuer()
  const request = { ...DECISION, fields: { ...DECISION.fields, Authorization: `Bearer ${token}` } }
  const callers = { mode: 'enforce', jwt: [{ ...ENTRY, labels: { team: { claim: 'groups', first: 'team-*' } } }] }
  const startKnown = (limit) =>
    startEdgeWith([policy('bench', '/api', [rule('per-team', ['caller:team'], limit)])], { EDGE_SECRETS_DIR: secrets }, { callers })
  const low = await startKnown(LOW_LIMIT)
  await expectToReject({ name: 'edge, by team', server: low, request, isKeyed: false })
  const plain = { name: 'edge, without callers', request, server: await startEdgeWith([policy('bench', '/api', oneRule())]) }
  const known = { name: 'edge, a verified token', request, server: await startKnown() }
  await warmUp([plain, known], load, plan)
  const samples = await measureInTurns([plain, known], load, plan)
  const ratio = speedRatio(samples.get(plain), samples.get(known))
  return {
    group: {
      title: 'a verified RS256 token that is remembered',
      ratioTitle: 'it : without callers',
      rows: rowsOf([plain, known], samples, (each) => (each === known ? ratio : undefined)),
    },
    targets: [atMost('a verified token : without callers', ratio, 1.15)],
  }
}

function newIssuer() {
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const secrets = newScratchDirectory()
  const jwk = { ...publicKey.export({ format: 'jwk' }), kid: 'a', use: 'sig' }
  writeFileSync(join(secrets, ENTRY.jwks_file), JSON.stringify({ keys: [jwk] }))
  const groups = ['admins', 'engineering', 'everyone', 'team-payments', 'vpn']
  const claims = { iss: ENTRY.issuer, aud: 'api', sub: 'user-4711', groups, exp: Math.floor(Date.now() / 1000) + 86_400 }
  const part = (value) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const signed = `${part({ alg: 'RS256', typ: 'JWT', kid: 'a' })}.${part(claims)}`
  return { secrets, token: `${signed}.${sign('sha256', Buffer.from(signed), privateKey).toString('base64url')}` }
}
