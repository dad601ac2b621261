import { workerData } from 'node:worker_threads'
import { acquire, release } from '../../../dist/memory/shared-lock.js'
import { passGate } from './gate.mjs'

/** Counts in plain memory, which only a lock makes safe, and takes its time between reading and writing. */
const { words, counts, owner, gate, times } = workerData
passGate(gate)
for (let i = 0; i < times; i++) {
  acquire(words, 0, owner)
  const seen = counts[0]
  for (let pause = 0; pause < 50; pause++) Atomics.load(counts, 0)
  counts[0] = seen + 1
  release(words, 0)
}
