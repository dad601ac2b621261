import { parentPort, workerData } from 'node:worker_threads'
import { BUCKET } from '../../../dist/limiter/limit.js'
import { SharedTable } from '../../../dist/store/table/shared-table.js'

/** Writes records whose numbers all follow from one another, over and over, until it is told to stop. */
const { buffer, owner, keys, stop } = workerData
const table = new SharedTable(buffer, owner)
let writes = 0
while (Atomics.load(stop, 0) === 0) {
  for (let key = 1; key <= keys; key++, writes++) {
    const low = key * 0x1_0001
    const high = Math.floor((key / keys) * 0xffff_ffff) | 0
    const set = table.setOf(high)
    const level = writes % 1_000_000
    table.lock(set)
    const known = table.find(set, low, high)
    const slot = known >= 0 ? known : table.claim(set, low, high, BUCKET, 0, 0, 0)
    table.write(slot, -level, level * 3, (low % 1000) + level + 1, 1 / 1024)
    table.unlock(set)
  }
}
parentPort.postMessage(writes)
