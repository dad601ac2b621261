import { workerData } from 'node:worker_threads'
import { MetricMemory } from '../../../dist/telemetry/metrics/metric-memory.js'
import { passGate } from './gate.mjs'

/** Registers names that others register at the same time, and counts under each. */
const { buffer, lane, gate, names, dies } = workerData
const memory = new MetricMemory(buffer, lane)
// A size that is read once to see whether it fits, and ends the thread when the cells are taken: the entry is half written.
let reads = 0
const lastWords = { valueOf: () => (++reads === 1 ? 1 : process.exit()) }
passGate(gate)
for (const name of names) {
  const cell = memory.cellOf('metric', [name])
  memory.own[cell] += 1
}
if (dies) memory.cellOf('metric', ['of the dead'], lastWords)
