import { workerData } from 'node:worker_threads'
import { BUCKET } from '../../../dist/limiter/limit.js'
import { SharedTable } from '../../../dist/store/table/shared-table.js'

/** Takes locks, and dies with them where it is told to. */
const { buffer, owner, sets, key, dies } = workerData
const table = new SharedTable(buffer, owner)
for (const set of sets) table.lock(set)
// A number whose reading ends the thread: the words before it are written, those after it are not.
const lastWord = { valueOf: () => process.exit() }
if (dies !== 'before it writes') {
  const known = table.find(sets[0], key.low, key.high)
  const slot = known >= 0 ? known : table.claim(sets[0], key.low, key.high, BUCKET, 0, 0, 0)
  if (dies === 'while it writes') table.write(slot, 3, lastWord, 10, 1)
}
process.exit()
