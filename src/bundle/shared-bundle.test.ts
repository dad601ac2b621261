import { deserialize } from 'node:v8'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../test/support/bundles/bundles.ts'
import { routed } from '../../test/support/bundles/routed-bundles.ts'
import { runs } from '../../test/support/run/property-runs.ts'
import { parseBundle } from '../policy/parse.ts'
import type { Bundle } from '../policy/schema/bundle.ts'
import { byteLengthOf, policiesOf, routingOf, shareBundle } from './shared-bundle.ts'

test('a bundle comes out as it went in, and no piece of it has much more than one policy or two hundred items', () => {
  const size = fc.oneof(fc.nat(3), fc.nat(500))
  fc.assert(
    fc.property(fc.array(fc.tuple(size, size), { maxLength: 60 }), (sizes) => {
      const given = bundleOf(sizes)
      const shared = shareBundle(given)
      expect([...policiesOf(shared)]).toEqual(given.policies)
      for (const piece of shared.pieces) {
        const policies = deserialize(Buffer.from(piece)) as Bundle['policies']
        const items = policies.slice(0, -1).map(({ spec }) => 1 + spec.rules.length + (spec.selector?.hosts?.length ?? 0))
        expect(items.reduce((sum, count) => sum + count, 0)).toBeLessThan(200)
      }
    }),
    { numRuns: runs(2) },
  )
})

test('backends and routes come out as they went in', () => {
  const parsed = parseBundle(JSON.stringify(routed([{ backends: [{ name: 'a' }] }])))
  if (!parsed.ok) throw new Error(parsed.problems[0]!.message)
  const shared = shareBundle(parsed.bundle)
  expect(routingOf(shared)).toEqual({ backends: parsed.bundle.backends, routes: parsed.bundle.routes })
  expect(byteLengthOf(shared)).toBe(shared.routing!.byteLength)
  expect([routingOf(shareBundle(bundleOf([]))), shareBundle(bundleOf([])).routing]).toEqual([{}, undefined])
})

function bundleOf(sizes: readonly (readonly [hosts: number, rules: number])[]): Bundle {
  const policies = sizes.map(([hosts, rules], p) =>
    policy(`p${p}`, {
      ...(hosts === 0 ? {} : { selector: { hosts: Array.from({ length: hosts }, (_, i) => `h${i}`) } }),
      rules: Array.from({ length: rules }, (_, i) => bucketRule(`r${i}`, [], 5)),
    }),
  )
  const parsed = parseBundle(JSON.stringify(bundle(1, ...policies)))
  if (!parsed.ok) throw new Error(parsed.problems[0]!.message)
  return parsed.bundle
}
