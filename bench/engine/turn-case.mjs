// One case of `npm run bench:engine` in a process of its own: it decides when told to and says how fast that was.
import { fileURLToPath } from 'node:url'
import { EngineRequest, newKeys } from '../support/engine-request.mjs'
import { newEngine } from './built-engine.mjs'

const HERE = fileURLToPath(new URL('../..', import.meta.url))

const { policies, keyCount, storeBytes } = await new Promise((resolve) => process.once('message', resolve))

const { engine, store, systemClock } = await newEngine(HERE, { policies, storeBytes })
const keys = newKeys(keyCount)
const view = new EngineRequest()
let next = 0

const tasks = {
  decide(count) {
    const start = process.hrtime.bigint()
    for (let i = 0; i < count; i++) {
      view.key = keys[next]
      engine.decide(view)
      if (++next === keys.length) next = 0
    }
    return Number(process.hrtime.bigint() - start) / count
  },

  readClock(count) {
    let sum = 0
    const start = process.hrtime.bigint()
    for (let i = 0; i < count; i++) sum += systemClock.nowMs()
    return sum > 0 && Number(process.hrtime.bigint() - start) / count
  },

  stats: () => store.stats(),

  resident() {
    globalThis.gc()
    return process.memoryUsage().rss
  },

  allocate(count) {
    globalThis.gc()
    const before = process.memoryUsage().heapUsed
    tasks.decide(count)
    return (process.memoryUsage().heapUsed - before) / count
  },
}

process.on('message', ({ task, count }) => process.send(tasks[task](count)))
process.send('ready')
