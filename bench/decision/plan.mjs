import { parseArgs } from 'node:util'

const FULL = {
  rounds: 11,
  roundSeconds: 1,
  warmUpRequests: 150_000,
  warmUpSeconds: 8,
  keyCount: 1_000_000,
  latencyRounds: 9,
  latencySeconds: 1.5,
  threadRounds: 21,
}
const QUICK = {
  rounds: 3,
  roundSeconds: 1,
  warmUpRequests: 30_000,
  warmUpSeconds: 2,
  keyCount: 100_000,
  latencyRounds: 3,
  latencySeconds: 1,
  threadRounds: 5,
}

/** How long and how often. `--quick` is for trying: its figures go nowhere but to the terminal. */
export function readPlan(args) {
  const { quick } = parseArgs({ args, options: { quick: { type: 'boolean', default: false } } }).values
  return { isQuick: quick, ...(quick ? QUICK : FULL) }
}
