import { parentPort, workerData } from 'node:worker_threads'
import { ChargeResults, Charges } from '../../../dist/store/charges.js'
import { EmbeddedStore } from '../../../dist/store/table/embedded-store.js'
import { SharedTable } from '../../../dist/store/table/shared-table.js'
import { passGate } from './gate.mjs'

/** Makes every decision in turn, all at one instant, and tells how many were covered. */
const { buffer, owner, hashKey, gate, decisions, times } = workerData
const store = new EmbeddedStore(new SharedTable(buffer, owner), hashKey)
const charges = new Charges()
const results = new ChargeResults()
const opened = decisions.map((rows) => rows.map(({ spec, values, cost }) => ({ counter: store.open(spec), values, cost })))
let covered = 0
passGate(gate)
for (let i = 0; i < times; i++) {
  for (const rows of opened) {
    charges.clear()
    for (const { counter, values, cost } of rows) {
      for (const value of values) charges.addValue(value)
      charges.add(counter, cost)
    }
    if (store.takeAll(charges, results, 1000, 0)) covered++
  }
}
parentPort.postMessage(covered)
