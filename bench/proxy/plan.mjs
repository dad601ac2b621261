import { parseArgs } from 'node:util'
import { WORKLOADS } from './workloads.mjs'

const PARTS = [...Object.keys(WORKLOADS), 'delays', 'crowds', 'filter']
const ROUND_SECONDS = 1
const DELAY_ROUNDS = 9
const OPTIONS = {
  only: { type: 'string', default: PARTS.join() },
  rounds: { type: 'string', default: '11' },
  against: { type: 'string' },
  contestants: { type: 'string' },
}

/** What is measured, and how often. Results are written when nothing was left out. */
export function readPlan(args) {
  const { only, rounds, against, contestants } = parseArgs({ args, options: OPTIONS }).values
  const parts = only.split(',')
  const unknown = parts.filter((part) => !PARTS.includes(part))
  if (unknown.length > 0) throw new Error(`--only ${unknown}: not one of ${PARTS.join(', ')}`)
  if (!(Number.isInteger(Number(rounds)) && Number(rounds) > 0)) throw new Error(`--rounds ${rounds}: expected a whole number above 0`)
  return {
    has: (part) => parts.includes(part),
    isWhole: contestants === undefined && PARTS.every((part) => parts.includes(part)),
    isContestant: (id) => contestants === undefined || contestants.split(',').includes(id),
    rounds: Number(rounds),
    roundSeconds: ROUND_SECONDS,
    delayRounds: Math.min(Number(rounds), DELAY_ROUNDS),
    warmUpRequests: 40_000,
    warmUpSeconds: 15,
    method: { rounds: Number(rounds), roundSeconds: ROUND_SECONDS },
    against,
  }
}
