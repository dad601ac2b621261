import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { describeMachine, versionsOf } from '../decision/machine.mjs'
import { rounded } from '../support/numbers.mjs'
import { hasCores } from '../support/processes.mjs'
import { insertTables } from './page.mjs'
import { drawPicture } from './picture.mjs'

const DIRECTORY = new URL('../results/', import.meta.url)
const FILE = new URL('proxy.json', DIRECTORY)
const PAGE = new URL('../../docs/measurements.md', import.meta.url)
/** Parts that can be measured again without the others. Ratios of workloads are of one run. */
const PARTS = ['slow', 'delays', 'crowds', 'filter']

/** What the documents show. */
export function writeResults(measured) {
  write({
    date: today(),
    machine: { ...describeMachine(), isServerPinned: hasCores },
    versions: versionsOf(['nginx', 'haproxy'], ['undici']),
    ...measured,
  })
}

/** Replaces the parts that were measured, with their dates, and leaves the others as they are. */
export function writeParts(measured) {
  const names = PARTS.filter((name) => measured[name] !== undefined)
  const before = JSON.parse(readFileSync(FILE, 'utf8'))
  const parts = Object.fromEntries(names.map((name) => [name, measured[name]]))
  write({ ...before, ...parts, dates: { ...before.dates, ...Object.fromEntries(names.map((name) => [name, today()])) } })
}

function write(results) {
  mkdirSync(DIRECTORY, { recursive: true })
  const text = `${JSON.stringify(results, rounded, 2)}\n`
  const written = JSON.parse(text)
  writeFileSync(FILE, text)
  writeFileSync(new URL('proxy.svg', DIRECTORY), drawPicture(written))
  writeFileSync(PAGE, insertTables(readFileSync(PAGE, 'utf8'), written))
  console.log('\nwritten to bench/results/proxy.json, bench/results/proxy.svg and docs/measurements.md')
}

function today() {
  return new Date().toISOString().slice(0, 10)
}
