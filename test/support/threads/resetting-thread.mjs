import { workerData } from 'node:worker_threads'
import { Resets } from '../../../dist/store/table/embedded-counter.js'
import { SharedTable } from '../../../dist/store/table/shared-table.js'

/** Resets a counter, and dies with the lock while the reset is written down. */
const { buffer, owner, set, low, high } = workerData
const table = new SharedTable(buffer, owner)
// A number whose reading ends the thread: the words before it are written, those after it are not.
const lastWord = { valueOf: () => process.exit() }
table.lock(set)
table.write = new Proxy(table.write, { apply: (write, self, [slot, level]) => write.call(self, slot, level, lastWord, 1, 0) })
new Resets(table).note(set, low, high, 5000, 0, 0, 5000)
