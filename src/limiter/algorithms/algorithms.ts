import { BUCKET, IN_FLIGHT, type Limit, WINDOW } from '../limit.ts'
import type { Algorithm } from './algorithm.ts'
import { bucket } from './bucket.ts'
import { inFlight } from './in-flight.ts'
import { window } from './window.ts'

/** Every algorithm, by its kind. */
export const ALGORITHMS: readonly (Algorithm<Limit> | undefined)[] = tableOf([
  [BUCKET, bucket],
  [WINDOW, window],
  [IN_FLIGHT, inFlight],
])

export function algorithmOf(limit: Limit): Algorithm<Limit> {
  return ALGORITHMS[limit.kind]!
}

export function isSameLimit(a: Limit, b: Limit): boolean {
  return a.kind === b.kind && algorithmOf(a).isSame(a, b)
}

function tableOf(entries: readonly (readonly [number, Algorithm<never>])[]): readonly (Algorithm<Limit> | undefined)[] {
  const table = new Array<Algorithm<Limit> | undefined>(1 + Math.max(...entries.map(([kind]) => kind))).fill(undefined)
  for (const [kind, algorithm] of entries) table[kind] = algorithm as Algorithm<Limit>
  return Object.freeze(table)
}
