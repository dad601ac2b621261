import { speedRatio } from '../decision/rounds.mjs'
import { median } from '../support/statistics.mjs'

/** A row for each contestant: medians over the rounds. `ratio`: how many times as fast as embedded, by CPU time. */
export function summarise(contestants, samples) {
  const embedded = samples.get('embedded')
  return contestants.map(({ id, name }) => {
    const own = samples.get(id)
    const row = { id, name, ratio: id === 'embedded' ? undefined : speedRatio(own, embedded) }
    for (const figure of Object.keys(own[0])) row[figure] = median(own.map((sample) => sample[figure]))
    return row
  })
}
