import { ask, MEASURED, start, stop } from '../support/processes.mjs'
import { median } from '../support/statistics.mjs'

const WARM_UP_ROUNDS = 3
const STREAMS = 60
const CASES = [
  ['chat, usage added', 'chat', true],
  ['chat', 'chat', false],
  ['Anthropic', 'anthropic', false],
  ['Responses', 'responses', false],
]

/** The filter without sockets, each case in a process of its own: events a second on one core, one event a chunk and in 16 KiB chunks. */
export async function measureFilter(rounds) {
  console.error('the filter alone')
  const cases = []
  for (const [name, dialect, addsUsage] of CASES) {
    const args = [dialect, String(addsUsage)]
    cases.push({ name, child: await start(MEASURED, new URL('./filter-case.mjs', import.meta.url), { args }), single: [], chunked: [] })
  }
  for (let round = 0; round < WARM_UP_ROUNDS + rounds; round++) {
    for (const each of cases) {
      for (const task of ['single', 'chunked']) {
        const { eventNs } = await ask(each.child, task, { streams: STREAMS })
        if (round >= WARM_UP_ROUNDS) each[task].push(eventNs)
      }
    }
  }
  for (const { child } of cases) await stop(child)
  return cases.map(({ name, single, chunked }) => ({
    name,
    singlePerSecond: 1e9 / median(single),
    chunkedPerSecond: 1e9 / median(chunked),
  }))
}
