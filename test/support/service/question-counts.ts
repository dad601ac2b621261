import { bucketRule, bundle, policy } from '../bundles/bundles.ts'
import { HTTP_DOORS } from './doors.ts'
import { metricsOf } from './metrics.ts'

const OUTCOMES = ['allow', 'reject', 'refuse'] as const
export const LIMITS = bundle(
  1,
  policy('p', { rules: [bucketRule('r', ['header:x-caller'], 1, 1e-9)] }),
  policy('shadow', { mode: 'shadow', rules: [bucketRule('s', [], 1, 1e-9)] }),
)
export const CALLER = [['X-Caller', 'a']] as const

/** By door, in the order of the outcomes; doors without any are left out. */
export async function questions(port: number): Promise<Record<string, number[]>> {
  const metrics = await metricsOf(port)
  const doors = [...HTTP_DOORS.map(({ name }) => name), 'ext_authz_grpc', 'rate_limit', 'proxy']
  const counts = doors.map((door) => {
    const values = OUTCOMES.map((outcome) => metrics.value(`edge_questions_total{door="${door}",outcome="${outcome}"}`))
    return [door, values] as const
  })
  return Object.fromEntries(counts.filter(([, values]) => values.some((value) => value > 0)))
}
