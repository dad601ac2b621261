// One case of `npm run bench:tracing` in a process of its own: decides when told to, and says what CPU time that took.
import { setImmediate } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { DecisionPipeline } from '../../dist/decide/decision-pipeline.js'
import { QuestionHead } from '../../dist/doors/http1/question-head.js'
import { DecisionMetrics, QuestionMetrics } from '../../dist/telemetry/metrics/decision-metrics.js'
import { MetricMemory, newMetricBuffer } from '../../dist/telemetry/metrics/metric-memory.js'
import { newEngine } from '../engine/built-engine.mjs'
import { oneRule, policy } from '../support/bundle.mjs'

const HERE = fileURLToPath(new URL('../..', import.meta.url))
/** As many as a busy worker decides before it looks at its sockets again. */
const PER_TURN = 100

const { text, url, share } = JSON.parse(process.argv[2])
const { engine, systemClock: clock } = await newEngine(HERE, { policies: [policy('p', '/api', oneRule())], storeBytes: 1024 * 1024 })
const logger = { warn: fail, error: fail, info() {} }
const memory = new MetricMemory(newMetricBuffer(2), 1)
const metrics = new DecisionMetrics(memory)
const questions = new QuestionMetrics(memory)
const tracing = url && (await newTracing())
const pipeline = new DecisionPipeline({ engine, clock, logger, metrics, questions, debugSessions: undefined, gateway: undefined, tracing })
const reader = new QuestionHead()
const bytes = Buffer.from(text, 'latin1')

process.on('message', async ({ count }) => {
  const before = process.cpuUsage()
  for (let i = 0; i < count; i += PER_TURN) {
    for (let j = 0; j < PER_TURN; j++) {
      reader.begin(bytes, bytes.length)
      reader.read(0)
      if (pipeline.decide(reader).status !== 200) fail()
    }
    await setImmediate()
  }
  const { user, system } = process.cpuUsage(before)
  process.send({ cpuUs: (user + system) / count })
})
process.send({ port: 0 })

async function newTracing() {
  const { Tracing } = await import('../../dist/telemetry/tracing/tracing.js')
  const series = () => ({ count: 0 })
  // With a share of 1, more spans come than can be sent.
  const quiet = { ...logger, warn() {} }
  return new Tracing({ url: new URL(url), share, clock, logger: quiet, sent: series(), dropped: series(), explain: String })
}

function fail() {
  throw new Error('a decision was not allowed')
}
