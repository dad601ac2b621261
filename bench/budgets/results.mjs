import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { describeMachine, versionsOf } from '../decision/machine.mjs'
import { ratelimitVersion } from '../doors/ratelimit.mjs'
import { rounded } from '../support/numbers.mjs'
import { hasCores } from '../support/processes.mjs'
import { litellmVersion } from './litellm.mjs'
import { drawPicture } from './picture.mjs'
import { insertTables, TABLES } from './tables.mjs'

const FILE = new URL('../results/budgets.json', import.meta.url)
const PICTURE = new URL('../results/budgets.svg', import.meta.url)
const PAGE = new URL('../../docs/comparison.md', import.meta.url)

/** Replaces a part, and leaves the others as they are; then the picture and the page follow. */
export function writeResults(name, measured) {
  const before = existsSync(FILE) ? JSON.parse(readFileSync(FILE, 'utf8')).parts : {}
  const results = {
    machine: { ...describeMachine(), isServerPinned: hasCores },
    versions: {
      ...versionsOf(['nginx', 'redis-server'], []),
      litellm: litellmVersion,
      'envoyproxy/ratelimit': ratelimitVersion(),
    },
    parts: { ...before, [name]: measured },
  }
  const text = `${JSON.stringify(results, rounded, 2)}\n`
  writeFileSync(FILE, text)
  const written = JSON.parse(text)
  if (Object.keys(TABLES).every((each) => written.parts[each])) writeFileSync(PICTURE, drawPicture(written))
  writeFileSync(PAGE, insertTables(readFileSync(PAGE, 'utf8'), written))
  console.error(`${name}: written to bench/results/budgets.json, bench/results/budgets.svg and docs/comparison.md`)
}
