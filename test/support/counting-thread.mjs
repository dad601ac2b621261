import { workerData } from 'node:worker_threads'
import { acquire, release } from '../../dist/store/set-locks.js'
import { passGate } from './gate.mjs'

/** Counts in plain memory, which only a lock makes safe. */
const { words, counts, owner, gate, times } = workerData
passGate(gate)
for (let i = 0; i < times; i++) {
  acquire(words, 0, owner)
  counts[0] += 1
  release(words, 0)
}
