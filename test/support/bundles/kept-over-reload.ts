import { expect, type TestContext } from 'vitest'
import type { Edge } from '../service/edge.ts'
import { ManualClock } from '../service/manual-clock.ts'
import { running } from '../service/running.ts'
import { offer } from './bundle-file.ts'
import { bucketRule, bundle, type PolicyText, policy } from './bundles.ts'

export function perCaller(burst: number, perSecond: number): PolicyText {
  return policy('p', { rules: [bucketRule('r', ['header:x-caller'], burst, perSecond)] })
}

export function start(t: TestContext, first: PolicyText, clock = new ManualClock()): Promise<Edge> {
  return running({ bundle: bundle(1, first), clock }, t)
}

export async function publish(edge: Edge, version: number, ...policies: PolicyText[]): Promise<void> {
  expect(await offer(edge, bundle(version, ...policies))).toMatchObject({ event: 'bundle_applied', version: String(version) })
}

export function call(edge: Edge, caller = 'alice'): ReturnType<Edge['decide']> {
  return edge.decide({
    uri: '/a',
    fields: [
      ['X-Caller', caller],
      ['X-Team', 'a'],
    ],
  })
}

export async function spend(edge: Edge, times: number): Promise<void> {
  for (let i = 0; i < times; i++) expect((await call(edge)).status).toBe(200)
}
