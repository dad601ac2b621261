// Decisions per second of the engine alone, in one thread, on the embedded store.
//
// Each case has a process of its own, and they take turns, round after round, so that a busy machine slows all of them
// alike. Figures are medians over the rounds, ratios are medians of the per-round ratios. A decision includes reading the
// clock once; what that alone takes is printed for scale, for it differs a lot between machines and moments.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fiveRules, oneRule, policy } from '../support/bundle.mjs'
import { whole } from '../support/numbers.mjs'
import { median, ratio } from '../support/statistics.mjs'

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 31)
const DECISIONS_PER_ROUND = 200_000
const WARM_UP_ROUNDS = 3
const MILLION = 1_000_000
const STORE_BYTES = 64 * 1024 * 1024

const perKey = policy('p', '/api', oneRule())

export async function measureInTurns() {
  const one = await newCase('1 rule, 1,000 keys', [perKey], 1000)
  const million = await newCase('1 rule, 1,000,000 keys', [perKey], MILLION)
  const five = await newCase('5 rules, 3 of them by JWT', [policy('p', '/api', fiveRules())], 1000)
  const ten = await newCase('1 rule + 10 policies that do not match', [perKey, ...others(10)], 1000)
  const tenThousand = await newCase('1 rule + 10,000 policies that do not match', [perKey, ...others(10_000)], 1000)
  const cases = [one, million, five, ten, tenThousand]

  // Every key once: what a million live callers take, and how many had to go for others.
  const bytesBefore = await ask(million, 'resident')
  await ask(million, 'decide', MILLION)
  const addedBytes = (await ask(million, 'resident')) - bytesBefore
  const { forcedEvictions } = await ask(million, 'stats')

  const clockNs = []
  for (let round = 0; round < WARM_UP_ROUNDS + ROUNDS; round++) {
    for (const each of cases) {
      const decisionNs = await ask(each, 'decide', DECISIONS_PER_ROUND)
      if (round >= WARM_UP_ROUNDS) each.decisionNs.push(decisionNs)
    }
    clockNs.push(await ask(one, 'readClock', DECISIONS_PER_ROUND))
  }
  const allocatedBytes = await ask(one, 'allocate', 20_000)

  console.log(`node ${process.version}, ${ROUNDS} interleaved rounds of ${whole(DECISIONS_PER_ROUND)} decisions\n`)
  console.log('decisions/s  ns each  fastest round  case')
  for (const { name, decisionNs } of cases) {
    const ns = median(decisionNs)
    print(whole(1e9 / ns), ns, Math.min(...decisionNs), name)
  }
  print('', median(clockNs), Math.min(...clockNs), '(reading the clock)')
  const cost = ratio(tenThousand.decisionNs, ten.decisionNs).median
  console.log(`\n10,000 policies that do not match cost ${cost.toFixed(2)} × what 10 cost`)
  const evicted = ((forcedEvictions / MILLION) * 100).toFixed(4)
  console.log(`a million live keys in ${STORE_BYTES >> 20} MiB: ${forcedEvictions} forced evictions (${evicted} %)`)
  console.log(`memory that the process gained by deciding on each of them once: ${Math.round(addedBytes / 2 ** 20)} MiB`)
  console.log(`a decision with 1 rule allocates ${allocatedBytes.toFixed(0)} bytes and keeps none of them`)
  for (const { child } of cases) child.disconnect()
}

function print(perSecond, ns, fastestNs, name) {
  console.log(`${perSecond.padStart(11)} ${ns.toFixed(0).padStart(8)} ${fastestNs.toFixed(0).padStart(14)}  ${name}`)
}

async function newCase(name, policies, keyCount) {
  const child = fork(new URL('./turn-case.mjs', import.meta.url), { execArgv: ['--expose-gc'] })
  child.send({ policies, keyCount, storeBytes: STORE_BYTES })
  await once(child, 'message')
  return { name, child, decisionNs: [] }
}

async function ask({ child }, task, count) {
  child.send({ task, count })
  const [answer] = await once(child, 'message')
  return answer
}

function others(count) {
  return Array.from({ length: count }, (_, i) => policy(`other-${i}`, `/other-${i}`, oneRule()))
}
