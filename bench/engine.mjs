// `npm run bench:engine`: decisions per second of the engine alone, in one thread, on the embedded store.
//
// All cases take turns, round after round, so that a busy machine slows all of them alike; figures are medians over
// the rounds, ratios are medians of the per-round ratios. A decision includes reading the clock once; what that alone
// takes is printed for scale, for it differs a lot between machines and moments.
import { systemClock } from '../dist/clock.js'
import { Engine } from '../dist/engine/engine.js'
import { compileBundle } from '../dist/policy/compile.js'
import { parseBundle } from '../dist/policy/parse.js'
import { newEmbeddedStore } from '../dist/store/embedded-store.js'

const STORE_BYTES = 64 * 1024 * 1024
const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 21)
const DECISIONS_PER_ROUND = 200_000
const WARM_UP_ROUNDS = 5
const MILLION = 1_000_000

/** A request as a server would show it to the engine; only the key changes. */
class View {
  method = 'GET'
  uri = '/api/v1/users/42?full=1'
  host = 'api.example.com'
  key = ''
  authorization = `Bearer ${jwt({ sub: 'user-4711', tenant: 'acme', plan: 'gold', region: 'eu', iat: 1_700_000_000 })}`

  header(name) {
    if (name === 'x-api-key') return this.key
    return name === 'authorization' ? this.authorization : undefined
  }
}

const perKey = rule('per-key', ['header:x-api-key'])
const fiveRules = [
  perKey,
  rule('subject', ['jwt:sub']),
  rule('tenant', ['jwt:tenant']),
  rule('plan', ['jwt:tenant', 'jwt:plan']),
  rule('all', []),
]

const cases = [
  newCase('1 rule, 1,000 keys', [policy('p', '/api', [perKey])], 1000),
  newCase('1 rule, 1,000,000 keys', [policy('p', '/api', [perKey])], MILLION),
  newCase('5 rules, 3 of them by JWT', [policy('p', '/api', fiveRules)], 1000),
  newCase('1 rule + 10 policies that do not match', [policy('p', '/api', [perKey]), ...others(10)], 1000),
  newCase('1 rule + 10,000 policies that do not match', [policy('p', '/api', [perKey]), ...others(10_000)], 1000),
]

const clockReads = []
const firstPass = fillWithAMillion(cases[1])
for (let round = 0; round < WARM_UP_ROUNDS + ROUNDS; round++) {
  if (round >= WARM_UP_ROUNDS) clockReads.push(readClock(DECISIONS_PER_ROUND))
  for (const each of cases) {
    const perSecond = decide(each, DECISIONS_PER_ROUND)
    if (round >= WARM_UP_ROUNDS) each.perSecond.push(perSecond)
  }
}
report()

function newCase(name, policies, keyCount) {
  const parsed = parseBundle(JSON.stringify({ bundle_version: 1, policies }))
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
  const store = newEmbeddedStore(STORE_BYTES)
  const engine = new Engine({ store, clock: systemClock })
  engine.activate(compileBundle(parsed.bundle))
  const keys = Array.from({ length: keyCount }, (_, i) => `key-${i}-${(i * 2_654_435_761) >>> 0}`)
  return { name, engine, store, keys, next: 0, view: new View(), perSecond: [] }
}

function decide(each, count) {
  const { engine, view, keys } = each
  let next = each.next
  const start = process.hrtime.bigint()
  for (let i = 0; i < count; i++) {
    view.key = keys[next]
    engine.decide(view)
    if (++next === keys.length) next = 0
  }
  const elapsedNs = Number(process.hrtime.bigint() - start)
  each.next = next
  return (count / elapsedNs) * 1e9
}

function readClock(count) {
  let sum = 0
  const start = process.hrtime.bigint()
  for (let i = 0; i < count; i++) sum += systemClock.nowMs()
  const elapsedNs = Number(process.hrtime.bigint() - start)
  return sum > 0 ? elapsedNs / count : 0
}

/** Every key once: what a million live callers take, and how many had to go for others. */
function fillWithAMillion(each) {
  decide(each, MILLION)
  return each.store.stats()
}

function report() {
  console.log(`node ${process.version}, ${ROUNDS} interleaved rounds of ${DECISIONS_PER_ROUND.toLocaleString('en')} decisions\n`)
  console.log('decisions/s     ns each  case')
  for (const { name, perSecond } of cases) {
    const middle = median(perSecond)
    console.log(`${Math.round(middle).toLocaleString('en').padStart(11)} ${(1e9 / middle).toFixed(0).padStart(11)}  ${name}`)
  }
  console.log(`${''.padStart(11)} ${median(clockReads).toFixed(0).padStart(11)}  reading the clock, for scale`)
  const [, , , ten, tenThousand] = cases
  const cost = median(ten.perSecond.map((perSecond, round) => perSecond / tenThousand.perSecond[round]))
  const evicted = (firstPass.forcedEvictions / MILLION) * 100
  console.log(`\n10,000 policies that do not match cost ${cost.toFixed(2)} × what 10 cost`)
  console.log(`a million live keys in ${STORE_BYTES >> 20} MiB: ${firstPass.forcedEvictions} forced evictions (${evicted.toFixed(4)} %)`)
  console.log(`allocated per decision (1 rule): ${bytesPerDecision(cases[0])} bytes, none of it kept`)
}

function bytesPerDecision(each) {
  const count = 20_000
  globalThis.gc?.()
  const before = process.memoryUsage().heapUsed
  decide(each, count)
  return Math.round((process.memoryUsage().heapUsed - before) / count)
}

function median(numbers) {
  return numbers.toSorted((a, b) => a - b)[numbers.length >> 1]
}

function rule(name, keys) {
  return { name, limit_keys: keys, algorithm: 'token_bucket', algorithm_config: { tokens_per_second: 1, burst: 1_000_000_000 } }
}

function policy(id, pathPrefix, rules) {
  return { id, spec: { selector: { pathPrefix }, rules } }
}

function others(count) {
  return Array.from({ length: count }, (_, i) => policy(`other-${i}`, `/other-${i}`, [perKey]))
}

function jwt(payload) {
  const part = (value) => Buffer.from(JSON.stringify(value)).toString('base64url')
  return `${part({ alg: 'RS256', typ: 'JWT' })}.${part(payload)}.${'s'.repeat(342)}`
}
