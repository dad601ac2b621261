import { bucketLimit } from '../store/charging.ts'
import type { FleetInstance, LeasedFleet } from './leased-fleet.ts'

export const LEASE_MS = 1000

/** So much that no test comes near it. */
export const AMPLE = bucketLimit(100, 1_000_000)

export function take(fleet: LeasedFleet, one: FleetInstance, limit: Parameters<FleetInstance['open']>[0]) {
  return finish(fleet, one.take(one.open(limit)))
}

/** A take per millisecond; answers how many were admitted. */
export async function use(
  fleet: LeasedFleet,
  one: FleetInstance,
  limit: Parameters<FleetInstance['open']>[0],
  times: number,
): Promise<number> {
  let admitted = 0
  for (let i = 0; i < times; i++) {
    await fleet.time.advance(1)
    void one.take(one.open(limit)).then(({ outcome }) => {
      if (outcome === true) admitted++
    })
  }
  await fleet.time.advance(1)
  return admitted
}

/** Calls to Redis take no time, but time must be told to go on. */
export async function finish<Answer>(fleet: LeasedFleet, answer: Promise<Answer>): Promise<Answer> {
  await fleet.time.advance(0)
  return answer
}
