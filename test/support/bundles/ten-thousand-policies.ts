import { expect } from 'vitest'
import { ManualClock } from '../service/manual-clock.ts'
import { running } from '../service/running.ts'
import { offer } from './bundle-file.ts'
import { bucketRule, bundle, type PolicyText, policy } from './bundles.ts'

/** They load from a file of this name and decide, each by its own rule. */
export async function expectTenThousandPolicies(fileName: 'bundle.json' | 'bundle.yaml'): Promise<void> {
  const edge = await running({ bundle: bundle(1), fileName, clock: new ManualClock() })
  const policies = Array.from({ length: 10_000 }, (_, i) =>
    policy(`p${i}`, { selector: { pathPrefix: `/tenant-${i}` }, rules: [bucketRule(`r${i}`, ['header:x-caller'], 1 + (i % 7))] }),
  )
  const verdict = await offer(edge, fileName === 'bundle.json' ? bundle(2, ...policies) : yamlOf(policies))
  expect(verdict).toMatchObject({ event: 'bundle_applied', version: '2', policies: 10_000 })
  for (const i of [0, 1, 6, 4_999, 9_999]) {
    const burst = 1 + (i % 7)
    const call = { uri: `/tenant-${i}/x`, fields: [['X-Caller', 'alice']] } as const
    const first = await edge.decide(call)
    expect(first.headers['ratelimit']).toBe(`"p${i}";r=${burst - 1};t=1`)
    expect(await edge.decideTimes(burst, call)).toEqual([...Array(burst - 1).fill(200), 429])
  }
  expect((await edge.decide({ uri: '/tenant-10000' })).headers).not.toHaveProperty('ratelimit')
}

function yamlOf(policies: readonly PolicyText[]): string {
  const items = policies.map(({ id, spec }) => `  - id: ${id}\n    spec: ${JSON.stringify(spec)}\n`)
  return `bundle_version: 2\npolicies:\n${items.join('')}`
}
