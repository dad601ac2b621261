import { mkdirSync, writeFileSync } from 'node:fs'
import { describeMachine, versionsOf } from '../decision/machine.mjs'
import { rounded } from '../support/numbers.mjs'
import { hasCores } from '../support/processes.mjs'

/** What the documents show. */
export function writeResults(measured) {
  const results = {
    date: new Date().toISOString().slice(0, 10),
    machine: { ...describeMachine(), isServerPinned: hasCores },
    versions: versionsOf(['nginx', 'openssl'], []),
    ...measured,
  }
  const directory = new URL('../results/', import.meta.url)
  mkdirSync(directory, { recursive: true })
  writeFileSync(new URL('tls.json', directory), `${JSON.stringify(results, rounded, 2)}\n`)
  console.log('\nwritten to bench/results/tls.json')
}
