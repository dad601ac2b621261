import { ApiError } from '../admin/api/api-error.ts'
import type { Engine } from '../engine/engine.ts'
import type { CounterName, Inspection } from '../engine/inspection.ts'
import { LinkError } from '../store/redis/link/link-error.ts'

/** For operators: 'unknown' where Redis may have done it. Rejects with an ApiError where it did not. */
export async function resetCounters(engine: Engine, name: CounterName): Promise<Inspection | 'unknown'> {
  try {
    return await engine.reset(name)
  } catch (error) {
    if (!(error instanceof LinkError)) throw error
    if (error.outcome === 'unknown') return 'unknown'
    throw new ApiError('store_unavailable', `Redis could not be told, and nothing was reset: ${error.message}`)
  }
}
