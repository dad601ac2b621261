// `npm run bench:growth`: agents that ask for 64,000 tokens and use few of them, on one daily budget, with `reserve` and without. The engine and the
// growing reservations are those of the service; time, backends and clients are simulated, so every run prints the same.
import { Engine } from '../dist/engine/engine.js'
import { tokenCounts } from '../dist/llm/usage.js'
import { compileBundle } from '../dist/policy/compile.js'
import { parseBundle } from '../dist/policy/parse.js'
import { growingCharges, StreamGrowth } from '../dist/proxy/llm/growth.js'
import { PlainRequestView } from '../dist/request/view.js'
import { newEmbeddedStore } from '../dist/store/table/embedded-store.js'

const BUDGET = 1_000_000
const MAX_TOKENS = 64_000
const PROMPT = 300
/** Tokens that a stream brings in one turn, and how many turns agents work. */
const EVENT_TOKENS = 20
const TURNS = 5000
const VIEW = new PlainRequestView({ method: 'POST', uri: '/v1/chat/completions', headers: {} })
const REQUEST = { promptTokens: PROMPT, requestedTokens: MAX_TOKENS, choices: 1, isStream: true, isGrowable: true, model: 'm' }

console.log(`a budget of ${BUDGET} tokens a day; each request has max_tokens ${MAX_TOKENS} and uses 50 to 8000 tokens, 500 on average\n`)
console.log('agents  reserve  admitted  falsely rejected  cut  overspent  budget used')
for (const agents of [10, 100, 500]) for (const reserve of [undefined, {}]) console.log(row(agents, reserve, play(agents, reserve)))

/** Each agent asks, reads its stream to the end, and asks again; one that is rejected repeats its request in the next turn, and is counted once. */
function play(agents, reserve) {
  const engine = newEngine(reserve)
  const random = randomNumbers()
  const found = { admitted: 0, falselyRejected: 0, cut: 0, used: 0 }
  const streams = new Array(agents).fill(undefined)
  /** What the rejected requests of agents would use. */
  const rejected = new Array(agents).fill(0)
  /** What the streams in flight will use. */
  let toCome = 0
  for (let turn = 0; turn < TURNS && found.used < BUDGET; turn++) {
    for (let i = 0; i < agents; i++) {
      if (streams[i] === undefined) {
        const isRepeated = rejected[i] > 0
        const wanted = isRepeated ? rejected[i] : PROMPT + lengthOf(random())
        streams[i] = open(engine, wanted)
        if (streams[i] !== undefined) {
          found.admitted++
          toCome += wanted
        } else if (!isRepeated && found.used + toCome + wanted <= BUDGET) found.falselyRejected++
        rejected[i] = streams[i] === undefined ? wanted : 0
        continue
      }
      const stream = streams[i]
      const used = pass(stream)
      if (used === undefined) continue
      for (const charge of stream.charges) engine.settle(charge, used)
      found.used += used
      toCome -= stream.wanted
      if (used < stream.wanted) found.cut++
      streams[i] = undefined
    }
  }
  return found
}

function open(engine, wanted) {
  const decision = engine.decide(VIEW, { body: REQUEST })
  if (decision.action !== 'allow') return undefined
  let isSettled = false
  const parts = { engine, metrics: { countGrowth() {} }, logger: undefined, onReserved() {}, isSettled: () => isSettled }
  const { reservation } = decision
  const growth = new StreamGrowth(growingCharges(reservation, REQUEST, parts), true, () => {})
  return { charges: reservation.charges, growth, wanted, output: 0, end: () => (isSettled = true) }
}

/** Returns what was used in all when the stream is over. */
function pass(stream) {
  stream.output = Math.min(stream.wanted - PROMPT, stream.output + EVENT_TOKENS)
  const isCut = stream.output >= stream.growth.noticeAt && stream.growth.notice(tokenCounts(PROMPT, stream.output)) !== undefined
  if (!isCut && PROMPT + stream.output < stream.wanted) return undefined
  stream.end()
  return PROMPT + stream.output
}

function newEngine(reserve) {
  const config = { tokens_per_day: BUDGET, ...(reserve && { reserve }) }
  const rules = [{ name: 'day', limit_keys: [], algorithm: 'token_bucket_llm', algorithm_config: config }]
  const parsed = parseBundle(JSON.stringify({ bundle_version: 1, policies: [{ id: 'agents', spec: { rules } }] }))
  const wallMs = Date.UTC(2026, 0, 15)
  const engine = new Engine({ store: newEmbeddedStore(256 * 1024), clock: { nowMs: () => 0, wallMs: () => wallMs } })
  engine.activate(compileBundle(parsed.bundle))
  return engine
}

/** Most completions are short, and one in a hundred is long. */
function lengthOf(random) {
  if (random < 0.01) return 8000
  return 50 + Math.floor(random * 750)
}

/** A linear congruential generator (Numerical Recipes), so that all runs are alike. */
function randomNumbers() {
  let state = 1
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return state / 2 ** 32
  }
}

function row(agents, reserve, { admitted, falselyRejected, cut, used }) {
  const overspent = Math.max(0, used - BUDGET)
  const share = `${((100 * Math.min(used, BUDGET)) / BUDGET).toFixed(1)} %`
  const cells = [
    String(agents).padStart(6),
    (reserve ? 'yes' : 'no').padStart(7),
    String(admitted).padStart(8),
    String(falselyRejected).padStart(16),
  ]
  return [...cells, String(cut).padStart(3), String(overspent).padStart(9), share.padStart(11)].join('  ')
}
