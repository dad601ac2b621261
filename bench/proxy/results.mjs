import { mkdirSync, writeFileSync } from 'node:fs'
import { describeMachine, versionsOf } from '../decision/machine.mjs'
import { rounded } from '../support/numbers.mjs'
import { hasCores } from '../support/processes.mjs'
import { drawPicture } from './picture.mjs'

/** What the documents show. */
export function writeResults(measured) {
  const results = {
    date: new Date().toISOString().slice(0, 10),
    machine: { ...describeMachine(), isServerPinned: hasCores },
    versions: versionsOf(['nginx', 'haproxy'], ['undici']),
    ...measured,
  }
  const directory = new URL('../results/', import.meta.url)
  mkdirSync(directory, { recursive: true })
  writeFileSync(new URL('proxy.json', directory), `${JSON.stringify(results, rounded, 2)}\n`)
  writeFileSync(new URL('proxy.svg', directory), drawPicture(results))
  console.log('\nwritten to bench/results/proxy.json and bench/results/proxy.svg')
}
