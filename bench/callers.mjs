// `npm run bench:callers`: what verified tokens cost, each case in CPU time of this process, medians over interleaved rounds; and a million distinct
// bad tokens from four addresses beside others, on one thread, which is as good as a worker.
import { createHash, generateKeyPairSync, hash, sign } from 'node:crypto'
import { loadavg } from 'node:os'
import { createLocalJWKSet, jwtVerify } from 'jose'
import { KeySet, readKeySet } from '../dist/callers/jwt/key-set.js'
import { TokenMemory } from '../dist/callers/jwt/token-memory.js'
import { TokenVerifier } from '../dist/callers/jwt/token-verifier.js'
import { VerificationShare } from '../dist/callers/jwt/verification-share.js'
import { systemClock } from '../dist/time/clock.js'
import { median } from './support/statistics.mjs'
import { line } from './support/text-table.mjs'

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 15)
const FLOOD = Number(process.env.BENCH_FLOOD ?? 1_000_000)
const ENTRY = { name: 'idp', issuer: 'https://idp.example/', audiences: ['api'], jwks_file: 'idp.json', clock_skew_seconds: 60 }
const LABELS = { team: { claim: 'groups', first: 'team-*', default: 'none' } }
const GROUPS = ['admins', 'engineering', 'everyone', 'team-payments', 'team-search', 'vpn']
const NOW_S = Math.floor(Date.now() / 1000)

const PAIRS = {
  RS256: generateKeyPairSync('rsa', { modulusLength: 2048 }),
  ES256: generateKeyPairSync('ec', { namedCurve: 'P-256' }),
  ES384: generateKeyPairSync('ec', { namedCurve: 'P-384' }),
  ES512: generateKeyPairSync('ec', { namedCurve: 'P-521' }),
  EdDSA: generateKeyPairSync('ed25519'),
}
const JWKS = { keys: Object.entries(PAIRS).map(([kid, { publicKey }]) => ({ ...publicKey.export({ format: 'jwk' }), kid, use: 'sig' })) }
const keySet = new KeySet(readKeySet(JSON.stringify(JWKS)))
/** Verifying takes no share where only its price is asked for. */
const freeOfCharge = { admits: () => true, charge() {} }
const nowhere = () => undefined
const newVerifier = (...more) => new TokenVerifier([{ ...ENTRY, labels: LABELS }], { of: () => keySet }, systemClock, ...more)

const [load] = loadavg()
console.log(`node ${process.version}, ${ROUNDS} interleaved rounds; load of the machine before: ${load.toFixed(1)}`)
const rs256 = tokenOf('RS256')
console.log(`an RS256 token with ${GROUPS.length} groups: ${rs256.length} characters\n`)
await prices()
floodBesideOthers()

async function prices() {
  const remembering = newVerifier(freeOfCharge)
  remembering.verify(rs256, nowhere)
  const bytes = Buffer.from(rs256)
  // As it comes from a socket: a new text each time.
  const sent = () => bytes.latin1Slice()
  const jose = createLocalJWKSet(JWKS)
  const options = { issuer: ENTRY.issuer, audience: ENTRY.audiences }
  const refused = {
    'not a token': 'edge_0123456789012345678901234567890123456789012',
    'another issuer': tokenOf('RS256', { iss: 'https://other.example/' }),
    'too old': tokenOf('RS256', { exp: 1 }),
    'an unknown kid': tokenOf('RS256', {}, { kid: 'unknown' }),
    'no algorithm': tokenOf('RS256', {}, { alg: 'none' }),
  }
  const cases = [
    ['a remembered token, RS256', 5000, () => remembering.verify(sent(), nowhere)],
    ['  of which: its text', 5000, () => sent().length],
    ['  of which: crypto.hash', 5000, () => hash('sha256', sent(), 'base64')],
    ['  instead: createHash', 5000, () => createHash('sha256').update(sent()).digest('base64')],
    ['  instead: a Map by text', 5000, mapByText(sent)],
    ...Object.keys(PAIRS).map((algorithm) => [`a new token, ${algorithm}`, 100, freshTokens(algorithm)]),
    ...Object.entries(refused).map(([name, token]) => [`refused: ${name}`, 2000, () => remembering.verify(token, nowhere)]),
    ...JWKS.keys.map((key) => [`reading a key, ${key.kid}`, 20, () => readKeySet(JSON.stringify({ keys: [key] }))]),
    ['jose, RS256', 100, () => jwtVerify(rs256, jose, options)],
    ['jose, ES256', 100, joseTokens('ES256', jose, options)],
  ]
  const microseconds = cases.map(() => [])
  for (let round = -2; round < ROUNDS; round++) {
    for (const [i, [, count, run]] of cases.entries()) {
      const before = process.cpuUsage()
      for (let turn = 0; turn < count; turn++) await run()
      const { user, system } = process.cpuUsage(before)
      if (round >= 0) microseconds[i].push((user + system) / count)
    }
  }
  console.log(line('', 'CPU µs'))
  for (const [i, [name]] of cases.entries()) console.log(line(name, median(microseconds[i]).toFixed(1)))
}

/** Tokens that differ, verified by one that remembers nothing for long enough to help. */
function freshTokens(algorithm) {
  const tokens = Array.from({ length: 200 }, (_, i) => tokenOf(algorithm, { jti: i }))
  let turn = 0
  let verifier
  return () => {
    if (turn % tokens.length === 0) verifier = newVerifier(freeOfCharge)
    return verifier.verify(tokens[turn++ % tokens.length], nowhere)
  }
}

function joseTokens(algorithm, keys, options) {
  const token = tokenOf(algorithm)
  return () => jwtVerify(token, keys, options)
}

function mapByText(sent) {
  const map = new Map(Array.from({ length: 5000 }, (_, i) => [tokenOf('EdDSA', { jti: i }), i]))
  map.set(rs256, -1)
  return () => map.get(sent())
}

/** Every hundredth token is somebody else's: remembered, but for one in ten, which is new. */
function floodBesideOthers() {
  const memory = new TokenMemory()
  const share = new VerificationShare()
  let chargedMs = 0
  const counting = {
    admits: (address, nowMs) => share.admits(address, nowMs),
    charge(address, spentMs, nowMs, isGood) {
      chargedMs += spentMs
      share.charge(address, spentMs, nowMs, isGood)
    },
  }
  const verifier = newVerifier(counting, memory)
  const bad = tokenOf('ES256').slice(0, -8)
  const good = Array.from({ length: FLOOD / 1000 }, (_, i) => tokenOf('ES256', { jti: i }))
  const found = { signature: 0, busy: 0, othersKnown: 0, othersRefused: 0 }
  const startMs = performance.now()
  const before = process.cpuUsage()
  for (let i = 0; i < FLOOD; i++) {
    const { problem } = verifier.verify(`${bad}${i.toString(36).padStart(7, '0')}A`, () => `192.0.2.${i % 4}`)
    found[problem]++
    if (i % 100 === 0) {
      const token = i % 1000 === 0 ? good[i / 1000] : rs256
      const verdict = verifier.verify(token, () => `198.51.100.${(i / 100) % 200}`)
      if ('problem' in verdict) found.othersRefused++
      else found.othersKnown++
    }
  }
  const tookMs = performance.now() - startMs
  const { user, system } = process.cpuUsage(before)
  console.log(`\n${FLOOD} distinct bad tokens (ES256) from 4 addresses, as fast as one thread takes them:`)
  console.log(line('  seconds', (tookMs / 1000).toFixed(1)))
  console.log(line('  share of the time spent on signatures', `${((100 * chargedMs) / tookMs).toFixed(1)} %`))
  console.log(line('  bad tokens whose signature was checked', String(found.signature)))
  console.log(line('  bad tokens that were refused as busy', String(found.busy)))
  console.log(line('  CPU µs for a bad token, on average', ((user + system) / FLOOD).toFixed(1)))
  console.log(line('  others, from 200 addresses: known', String(found.othersKnown)))
  console.log(line('  others: refused', String(found.othersRefused)))
  console.log(line('  remembered tokens', String(memory.size)))
}

function tokenOf(algorithm, claims = {}, header = {}) {
  const { privateKey } = PAIRS[algorithm]
  const all = {
    iss: ENTRY.issuer,
    aud: 'api',
    sub: '00u1a2b3c4d5e6f7g8h9',
    iat: NOW_S,
    exp: NOW_S + 3600,
    groups: GROUPS,
    scp: ['openid', 'email'],
    ...claims,
  }
  const signed = [{ alg: algorithm, kid: algorithm, typ: 'JWT', ...header }, all]
    .map((part) => Buffer.from(JSON.stringify(part)).toString('base64url'))
    .join('.')
  const digest = algorithm === 'EdDSA' ? undefined : `sha${algorithm.slice(2)}`
  return `${signed}.${sign(digest, Buffer.from(signed), { key: privateKey, dsaEncoding: 'ieee-p1363' }).toString('base64url')}`
}
