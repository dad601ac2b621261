import { expect, test } from 'vitest'
import { bundle } from '../../test/support/bundles/bundles.ts'
import { routed } from '../../test/support/bundles/routed-bundles.ts'
import { parseBundle } from '../policy/parse.ts'
import { policiesHash } from './policies-hash.ts'

test('backends and routes change it, and the order of their fields does not', () => {
  const hashes = [
    hashOf(bundle(1)),
    hashOf(routed([{ backends: [{ name: 'a' }] }])),
    hashOf(routed([{ backends: [{ name: 'b' }] }])),
    hashOf(routed([{ backends: [{ name: 'a' }] }], { a: { url: 'https://other.example' } })),
  ]
  expect(new Set(hashes).size).toBe(4)
  const one = hashOf(routed([{ backends: [{ name: 'a', weight: 2 }], stick_to: ['bearer'] }]))
  expect(hashOf({ ...routed([{ stick_to: ['bearer'], backends: [{ weight: 2, name: 'a' }] }]), bundle_version: 9 })).toBe(one)
})

function hashOf(given: object): string {
  const parsed = parseBundle(JSON.stringify(given))
  if (!parsed.ok) throw new Error(parsed.problems[0]!.message)
  return policiesHash(parsed.bundle)
}
