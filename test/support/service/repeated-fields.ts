import { expect, type TestContext } from 'vitest'
import { bucketRule, bundle, type PolicyText, policy } from '../bundles/bundles.ts'
import type { Edge } from './edge.ts'
import type { Fields } from './http.ts'
import { ManualClock } from './manual-clock.ts'
import { decideRaw } from './raw-decision.ts'
import { running } from './running.ts'

export const REFUSED = 'edge_refused_requests_total{reason="repeated_descriptor"}'

/** A rule with this key refuses these fields, and no other rule has taken anything. */
export async function expectRefused(t: TestContext, key: string, fields: Fields, isLast: boolean): Promise<void> {
  const edge = await edgeWith(
    t,
    policy('other', { rules: [bucketRule('all', [], 9)] }),
    policy('p', { rules: [bucketRule('r', [key], 1)] }),
  )
  for (let i = 0; i < 3; i++)
    expect(await decideRaw(t, edge, '/', fields, isLast)).toMatchObject({ status: 400, reason: 'repeated_descriptor' })
  expect(await edge.metric(REFUSED)).toBe(3)
  // The rule of the other policy is as it was: this request is its first.
  expect((await edge.decide()).headers['ratelimit-remaining']).toBe('8')
}

export function edgeWith(t: TestContext, ...policies: readonly PolicyText[]): Promise<Edge> {
  return running({ bundle: bundle(1, ...policies), clock: new ManualClock() }, t)
}

/** So many lines of one field. */
export function lines(name: string, ...values: readonly string[]): Fields {
  return values.map((value) => [name, value] as const)
}
