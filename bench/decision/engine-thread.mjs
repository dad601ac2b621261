// One thread of several on one table: decides until it is told to stop, and says how often that was.
import { parentPort, workerData } from 'node:worker_threads'
import { Engine } from '../../dist/engine/engine.js'
import { compileBundle } from '../../dist/policy/compile.js'
import { parseBundle } from '../../dist/policy/parse.js'
import { EmbeddedStore } from '../../dist/store/table/embedded-store.js'
import { SharedTable } from '../../dist/store/table/shared-table.js'
import { systemClock } from '../../dist/time/clock.js'
import { oneRule, policy } from '../support/bundle.mjs'
import { EngineRequest, newKeys } from '../support/engine-request.mjs'

const BATCH = 1000

const { buffer, owner, hashKey, keyCount, firstKey } = workerData
const parsed = parseBundle(JSON.stringify({ bundle_version: 1, policies: [policy('bench', '/api', oneRule())] }))
if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
const engine = new Engine({ store: new EmbeddedStore(new SharedTable(buffer, owner), hashKey), clock: systemClock })
engine.activate(compileBundle(parsed.bundle))
const keys = newKeys(keyCount)
const request = new EngineRequest()
let next = 0

parentPort.on('message', ({ startMs, endMs, hasOwnKeys }) => {
  const range = hasOwnKeys ? { first: firstKey, end: firstKey + keyCount / 2 } : { first: 0, end: keyCount }
  next = firstKey
  while (systemClock.nowMs() < startMs);
  const beganMs = systemClock.nowMs()
  let decisions = 0
  for (; systemClock.nowMs() < endMs; decisions += BATCH) decide(BATCH, range)
  parentPort.postMessage({ decisions, elapsedMs: systemClock.nowMs() - beganMs })
})
parentPort.postMessage('ready')

function decide(count, { first, end }) {
  for (let i = 0; i < count; i++) {
    request.key = keys[next]
    if (engine.decide(request).action !== 'allow') throw new Error('a limit that is never reached was reached')
    if (++next === end) next = first
  }
}
