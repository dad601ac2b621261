import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { CONTESTANTS } from './contestants.mjs'
import { WORKLOADS } from './workloads.mjs'

const PARTS = ['slow', ...Object.keys(WORKLOADS), 'delays', 'crowds', 'filter']
const ROUND_SECONDS = 1
const DELAY_ROUNDS = 9
const OPTIONS = {
  only: { type: 'string' },
  rounds: { type: 'string', default: '11' },
  against: { type: 'string' },
  contestants: { type: 'string' },
  'new-ids': { type: 'boolean', default: false },
  write: { type: 'boolean', default: false },
}

/** What is measured, and how often. Results are written when nothing was left out and nothing was added. */
export function readPlan(args) {
  const { only, rounds: roundsText, against, contestants, 'new-ids': hasNewIds, write } = parseArgs({ args, options: OPTIONS }).values
  const parts = chosen('--only', only, PARTS)
  const ids = chosen('--contestants', contestants, Object.keys(CONTESTANTS))
  const rounds = Number(roundsText)
  if (!(Number.isInteger(rounds) && rounds > 0)) throw new Error(`--rounds ${roundsText}: expected a whole number above 0`)
  if (against !== undefined && !existsSync(join(against, 'program/edge.js')))
    throw new Error(`--against ${against}: not a built checkout, it has no program/edge.js`)
  return {
    has: (part) => parts.includes(part),
    isContestant: (id) => ids.includes(id),
    isWritten: write && contestants === undefined && against === undefined && !hasNewIds,
    isWhole: only === undefined && contestants === undefined && against === undefined && !hasNewIds,
    /** Each request has an X-Request-Id of its own, so no two heads are the same. */
    hasNewIds,
    rounds,
    roundSeconds: ROUND_SECONDS,
    delayRounds: Math.min(rounds, DELAY_ROUNDS),
    warmUpRequests: 40_000,
    delayWarmUpStreams: 10_000,
    warmUpSeconds: 15,
    method: { rounds, roundSeconds: ROUND_SECONDS },
    against,
  }
}

/** Names with commas between them; all of them, if none are given. */
function chosen(option, text, names) {
  if (text === undefined) return names
  const found = text.split(',')
  const unknown = found.filter((name) => !names.includes(name))
  if (unknown.length > 0) throw new Error(`${option} ${unknown.join()}: not one of ${names.join(', ')}`)
  return found
}
