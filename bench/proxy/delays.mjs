import { ask, MEASURED, start, stop } from '../support/processes.mjs'
import { median } from '../support/statistics.mjs'

const WARM_UP_ROUNDS = 1
const PACED = { streams: 60, startGapMs: 15, events: 20, eventGapMs: 40, timeoutMs: 20_000 }
const PATH = '/streams/usage/v1/chat/completions'

/** How many events there are in a second, while all streams are open. */
export const EVENTS_PER_SECOND = (PACED.streams * 1000) / PACED.eventGapMs

/**
 * Streams at a rate that all of them can hold: how long a head and an event are on their way. What a proxy adds is the difference to
 * a backend that is asked directly.
 */
export async function measureDelays(contestants, load, rounds) {
  const direct = { name: 'direct', server: await start(MEASURED, new URL('./backend.mjs', import.meta.url)) }
  const measured = [...contestants.filter(({ isMissing }) => !isMissing), direct]
  const samples = new Map(measured.map((each) => [each, []]))
  for (let round = 0; round < WARM_UP_ROUNDS + rounds; round++) {
    for (const each of measured) {
      const result = await ask(load, 'run', { ports: [each.server.port], path: PATH, ...PACED })
      const lost = PACED.streams - result.completed
      if (lost > 0) throw new Error(`${each.name} lost ${lost} streams`)
      if (round >= WARM_UP_ROUNDS) samples.get(each).push(result)
    }
  }
  await stop(direct.server)
  const base = figures(samples.get(direct))
  return [...contestants, direct].map((each) => {
    if (each.isMissing) return { name: each.name, isMissing: true }
    const own = figures(samples.get(each))
    const added = each === direct ? undefined : Object.fromEntries(Object.entries(own).map(([key, us]) => [key, us - base[key]]))
    return { name: each.name, ...own, added }
  })
}

function figures(results) {
  const of = (pick) => median(results.map(pick))
  return {
    headP50Us: of(({ headUs }) => headUs.p50),
    headP99Us: of(({ headUs }) => headUs.p99),
    eventP50Us: of(({ eventUs }) => eventUs.p50),
    eventP99Us: of(({ eventUs }) => eventUs.p99),
  }
}
