import { parentPort, workerData } from 'node:worker_threads'
import { IssuedKeys } from '../../../dist/callers/keys/issued-keys.js'
import { passGate } from './gate.mjs'

/** Looks for one key again and again while another thread changes it. Its two labels are always the same number, which rises. */
const { memory, text, gate, stop, wallMs } = workerData
const keys = new IssuedKeys(memory)
const wrong = []
let finds = 0
let last = -1
passGate(gate)
while (Atomics.load(stop, 0) === 0 && wrong.length < 10) {
  const found = keys.find(text, undefined, 0, wallMs)
  const [one, two] = 'problem' in found ? [found.problem, undefined] : [found.labels.get('one'), found.labels.get('two')]
  if (one !== two || Number(one) < last) wrong.push(`${one} and ${two} after ${last}`)
  last = Number(one)
  finds++
}
parentPort.postMessage({ finds, wrong })
