import { workerData } from 'node:worker_threads'
import { acquire } from '../../../dist/memory/shared-lock.js'
import { ownerNumber } from '../../../dist/runtime/shared-memory.js'
import { SharedTable } from '../../../dist/store/table/shared-table.js'

/** A worker as it is in the product, that dies or hangs when the test says so. */
const { hand, memory, worker, isStillborn } = workerData
if (isStillborn) throw new Error('stillborn')
await import('../../../dist/runtime/threads/worker-thread.js')

const ends = {
  throw() {
    throw new Error('thrown by the test')
  },
  reject() {
    void Promise.reject(new Error('rejected by the test'))
  },
  exit() {
    process.exit(7)
  },
  exhaust() {
    const kept = []
    for (;;) kept.push(new Array(10_000).fill(kept.length))
  },
  hang() {
    for (;;);
  },
}

function lockEverything() {
  const table = new SharedTable(memory.table, ownerNumber(worker))
  for (let set = 0; set < table.setCount; set++) table.lock(set)
  for (const buffer of [memory.metrics, memory.revokedSessions, memory.bodies])
    acquire(new Int32Array(buffer, 0, 1), 0, ownerNumber(worker))
}

hand.on('message', ({ end, isHoldingLocks }) => {
  if (isHoldingLocks) lockEverything()
  hand.postMessage('ending')
  ends[end]()
})
// The worker ends with its own port, not with this one.
hand.unref()
