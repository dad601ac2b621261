import { MAX_STEAL_SHARE, stealDuring } from '../support/steal.mjs'

/** With fewer runs on a machine that was left alone, delays are not reported. */
const LEAST_CALM = 3
const MOST_ROUNDS = 20

/**
 * Runs contestants in turns, once to warm up and then for at least so many rounds. Rounds go on until each contestant has had three runs with little steal, at
 * most twenty. Answers the runs of each, with the share of the machine's time that was stolen meanwhile.
 */
export async function runUntilCalm(contestants, leastRounds, run) {
  const runs = new Map(contestants.map((each) => [each, []]))
  for (const each of contestants) await run(each)
  const isEnough = () => contestants.every((each) => hasEnough(calmOf(runs.get(each))))
  for (let round = 0; round < MOST_ROUNDS && (round < leastRounds || !isEnough()); round++) {
    for (const each of contestants) {
      const { result, steal } = await stealDuring(() => run(each))
      runs.get(each).push({ ...result, steal })
    }
  }
  return runs
}

export function calmOf(runs) {
  return runs.filter(({ steal }) => steal <= MAX_STEAL_SHARE)
}

export function hasEnough(calmRuns) {
  return calmRuns.length >= LEAST_CALM
}
