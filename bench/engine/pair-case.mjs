// One process of `npm run bench:engine -- --against`: it decides when told to, and says how much CPU time a decision took, in ns.
import { pathToFileURL } from 'node:url'
import { EngineRequest, newKeys } from '../support/engine-request.mjs'
import { CASES } from './pair-cases.mjs'

const STORE_BYTES = 16 * 1024 * 1024

const [directory, caseId, watch] = process.argv.slice(2)
// Each checkout knows where its own files are.
const { newEngine } = await import(new URL('bench/engine/built-engine.mjs', pathToFileURL(`${directory}/`)).href)
const { policies, callers, action, warmUp, slice } = CASES.find(({ id }) => id === caseId)
const { engine } = await newEngine(directory, { policies, storeBytes: STORE_BYTES, isWatched: watch === 'watched' })
const keys = newKeys(callers)
const view = new EngineRequest()
let next = 0

decide(warmUp)
const seen = decide(1)
if (seen !== action) throw new Error(`${caseId}: the decision is ${seen}, not ${action}`)

process.on('message', () => {
  const before = process.cpuUsage()
  decide(slice)
  const { user, system } = process.cpuUsage(before)
  process.send(((user + system) * 1000) / slice)
})
process.send('ready')

function decide(count) {
  let last
  for (let i = 0; i < count; i++) {
    view.key = keys[next]
    last = engine.decide(view).action
    if (++next === keys.length) next = 0
  }
  return last
}
