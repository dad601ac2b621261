import { describe, expect, test } from 'vitest'
import { aliased } from '../../test/support/bundles/bundles.ts'
import { formatProblem } from '../text/problem.ts'
import { parseBundle } from './parse.ts'
import type { BundleFormat } from './schema/bundle.ts'

describe('metadata', () => {
  test('counts with the rest', () => {
    const zeros = `[${'0,'.repeat(100_000)}0]`
    const policy = `{"id":"p","spec":{"rules":[]},"metadata":{"z":${zeros}}}`
    expect(problemsOf(`{"bundle_version":1,"policies":[${policy}]}`, 'json')).toEqual([
      'policies[0]: expected at most 100000 values in one policy',
    ])
    const large = `[${'0,'.repeat(2_500_000)}0]`
    expect(problemsOf(`{"bundle_version":1,"policies":[],"metadata":{"z":${large}}}`, 'json')).toEqual(['it has more than 2500000 values'])
  })
})

describe('YAML in which something contains itself is refused', () => {
  test('a billion laughs are counted, not kept', () => {
    const levels = Array.from(
      { length: 30 },
      (_, i) =>
        `  l${i}: &l${i} [${Array(10)
          .fill(i === 0 ? '0' : `*l${i - 1}`)
          .join(',')}]`,
    )
    const text = `bundle_version: 1\nmetadata:\n${levels.join('\n')}\npolicies: []\n`
    expect(problemsOf(text, 'yaml')).toEqual(['it has more than 2500000 values'])
  })
})

describe('a bundle that is wrong all over', () => {
  test('or that aliases blow up is refused too', () => {
    const parsed = parseBundle(aliased(490, 30), 'yaml')
    expect(parsed.ok ? 0 : parsed.problems.length).toBeLessThanOrEqual(1001)
    expect(parsed.ok).toBe(false)
  })
})

function problemsOf(text: string, format: BundleFormat): string[] {
  const parsed = parseBundle(text, format)
  return parsed.ok ? [] : parsed.problems.map(formatProblem)
}
