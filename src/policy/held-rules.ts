import { SLICES } from '../limiter/algorithms/in-flight.ts'
import { IN_FLIGHT } from '../limiter/limit.ts'
import type { NamedLimit } from './compile.ts'

/** A rule that counts requests in flight. */
export interface HeldRule {
  readonly policy: string
  readonly rule: string
  readonly holdSeconds: number
}

/** The rules of a bundle that count requests in flight, by the limits of its counters. */
export function heldRules(limits: readonly NamedLimit[]): HeldRule[] {
  return limits.flatMap(({ name, limit }) => {
    if (limit.kind !== IN_FLIGHT) return []
    const [policy, rule] = JSON.parse(name) as [string, string]
    return [{ policy, rule, holdSeconds: (limit.sliceMs * SLICES) / 1000 }]
  })
}

/** What surprises where nobody reports the end of a request. */
export function heldRuleNote({ policy, rule, holdSeconds }: HeldRule): string {
  const seconds = holdSeconds === 1 ? '1 second' : `${holdSeconds} seconds`
  return `policy ${JSON.stringify(policy)}, rule ${JSON.stringify(rule)}: in decision_service each request counts as in flight for ${seconds} (hold_seconds), unless its end is reported to /v1/settle`
}
