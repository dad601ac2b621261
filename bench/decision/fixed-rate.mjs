import { setPriority } from 'node:os'
import { ask, OTHERS, start, stop } from '../support/processes.mjs'
import { median } from '../support/statistics.mjs'
import { textOf } from './requests.mjs'

export const PER_SECOND = 5000
const WARM_UP_ROUNDS = 1

/**
 * Delays at a rate that all of them can hold, in turns; medians over the rounds. `niceness`: of the generator, which looks at
 * the clock all the time and would keep others on its core waiting.
 */
export async function measureDelays(contestants, { latencyRounds, latencySeconds, niceness = 0 }) {
  const generator = await start(OTHERS, new URL('./fixed-rate-generator.mjs', import.meta.url))
  setPriority(generator.pid, niceness)
  const rounds = new Map(contestants.map((each) => [each, []]))
  for (let round = 0; round < WARM_UP_ROUNDS + latencyRounds; round++) {
    for (const each of contestants) {
      if (each.isMissing) continue
      const options = {
        port: each.server.port,
        text: textOf(each.request),
        keys: each.keys,
        perSecond: PER_SECOND,
        seconds: latencySeconds,
      }
      const delays = await ask(generator, 'run', options)
      if (round >= WARM_UP_ROUNDS) rounds.get(each).push(delays)
    }
  }
  await stop(generator)
  return contestants.map((each) => {
    const { name, isMissing } = each
    if (isMissing) return { name, isMissing }
    const of = (pick) => median(rounds.get(each).map(pick))
    return { name, p50Us: of(({ p50 }) => p50), p99Us: of(({ p99 }) => p99) }
  })
}
