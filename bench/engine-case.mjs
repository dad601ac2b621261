// One case of `npm run bench:engine` in a process of its own: it decides when told to and says how fast that was.
import { systemClock } from '../dist/clock.js'
import { Engine } from '../dist/engine/engine.js'
import { compileBundle } from '../dist/policy/compile.js'
import { parseBundle } from '../dist/policy/parse.js'
import { newEmbeddedStore } from '../dist/store/embedded-store.js'

const { policies, keyCount, storeBytes } = await new Promise((resolve) => process.once('message', resolve))

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

const parsed = parseBundle(JSON.stringify({ bundle_version: 1, policies }))
if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
const store = newEmbeddedStore(storeBytes)
const engine = new Engine({ store, clock: systemClock })
engine.activate(compileBundle(parsed.bundle))
// Through a buffer, so that they are plain strings like those a socket brings, not pieces that V8 joins when read.
const keys = Array.from({ length: keyCount }, (_, i) => Buffer.from(`key-${i}-${(i * 2_654_435_761) >>> 0}`).toString('latin1'))
const view = new View()
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

function jwt(payload) {
  const part = (value) => Buffer.from(JSON.stringify(value)).toString('base64url')
  return `${part({ alg: 'RS256', typ: 'JWT' })}.${part(payload)}.${'s'.repeat(342)}`
}
