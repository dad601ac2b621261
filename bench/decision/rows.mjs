import { figures } from './rounds.mjs'

/** A group's rows as they are printed, drawn and written. */
export function rowsOf(cases, samples, ratioOf) {
  return cases.map((each) => {
    const { name, isMissing } = each
    return isMissing ? { name, isMissing } : { name, ...figures(samples.get(each)), ratio: ratioOf(each) }
  })
}
