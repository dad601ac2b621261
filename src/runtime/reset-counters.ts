import { ApiError } from '../admin/api/api-error.ts'
import type { UnknownReset } from '../admin/api/counters/reset-endpoint.ts'
import type { Engine } from '../engine/engine.ts'
import type { CounterName, Inspection } from '../engine/inspection.ts'
import { LinkError } from '../store/redis/link/link-error.ts'

/** For operators. If the outcome is unknown, returns why; if Redis did not do it, rejects with an ApiError. */
export async function resetCounters(engine: Engine, name: CounterName): Promise<Inspection | UnknownReset> {
  try {
    return await engine.reset(name)
  } catch (error) {
    if (!(error instanceof LinkError)) throw error
    if (error.outcome === 'unknown') return { unknown: error.message }
    throw new ApiError('store_unavailable', `nothing was reset, because Redis did not accept it: ${error.message}`)
  }
}
