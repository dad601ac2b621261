import { policiesOf, pricesOf, type SharedBundle } from '../bundle/shared-bundle.ts'
import { PlanBuilder } from '../policy/compile.ts'
import type { Plan } from '../policy/plan.ts'

/** Compiles a bundle as workers do. */
export function planOf(bundle: SharedBundle): Plan {
  const builder = new PlanBuilder(bundle.version, pricesOf(bundle))
  for (const policy of policiesOf(bundle)) builder.add(policy)
  return builder.build()
}
