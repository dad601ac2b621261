import fc from 'fast-check'
import { expect, test } from 'vitest'
import { Engine } from '../../src/engine/engine.ts'
import type { Explanation } from '../../src/engine/explain/explanation.ts'
import { compileBundle } from '../../src/policy/compile.ts'
import { parseBundle } from '../../src/policy/parse.ts'
import { Patterns } from '../../src/policy/patterns.ts'
import { PlainRequestView } from '../../src/request/view.ts'
import { newEmbeddedStore } from '../../src/store/table/embedded-store.ts'
import { bucketRule, bundle, policy } from '../support/bundles/bundles.ts'
import { runs } from '../support/run/property-runs.ts'
import { ManualClock } from '../support/service/manual-clock.ts'

// Few names and values, so that rules and requests meet often.
const NAMES = ['a', 'b', 'c']
const name = fc.constantFrom(...NAMES)
const pattern = fc.constantFrom('x', 'xy', 'x*', 'y', '*', 'y*')
const value = fc.oneof(fc.constantFrom('x', 'xy', 'xyz', 'y', 'z', ''), fc.constant(['x', 'x']))
const headers = fc.record(Object.fromEntries(NAMES.map((each) => [each, value])), { requiredKeys: [] })

interface RandomRule {
  readonly match: 'else' | Readonly<Record<string, readonly string[]>> | undefined
  readonly keys: readonly string[]
}

const match = fc.dictionary(name, fc.array(pattern, { minLength: 1, maxLength: 2 }), { minKeys: 1, maxKeys: 2 })
const keys = fc.uniqueArray(name, { maxLength: 2 })
const rule: fc.Arbitrary<RandomRule> = fc.record({ match: fc.option(match, { nil: undefined }), keys })
const rules = fc
  .tuple(fc.array(rule, { maxLength: 4 }), fc.option(fc.record({ place: fc.nat({ max: 4 }), keys }), { nil: undefined }))
  .map(([list, other]): RandomRule[] => {
    const all = [...list]
    if (other !== undefined) all.splice(other.place, 0, { match: 'else', keys: other.keys })
    return all
  })

test('those rules apply whose match and keys the request has, and else where no other rule with a match does', () => {
  fc.assert(
    fc.property(rules, headers, fc.constantFrom('enforce', 'shadow'), (list, given, mode) => {
      const engine = new Engine({ store: newEmbeddedStore(256 * 1024), clock: new ManualClock() })
      engine.activate(planOf(list, mode))
      const view = new PlainRequestView({ method: 'GET', uri: '/', headers: given })
      const { policies } = engine.explain(view) as Explanation
      const decision = engine.decide(view)
      const expected = modelOf(list, given)
      if (expected === 'repeated') {
        expect(decision).toMatchObject(
          mode === 'enforce' ? { action: 'refuse', reason: 'repeated_descriptor' } : { action: 'allow', missingKeys: [] },
        )
        return
      }
      expect(policies[0]!.rules.flatMap(({ why }, i) => (why === undefined ? [i] : []))).toEqual(expected.applied)
      expect('missingKeys' in decision && new Set(decision.missingKeys)).toEqual(expected.missing)
    }),
    { numRuns: runs(30) },
  )
})

test('a pattern covers the text that it is, or what begins with it', () => {
  fc.assert(
    fc.property(fc.array(fc.string()), fc.string(), (patterns, text) => {
      const expected = patterns.some((each) => (each.endsWith('*') ? text.startsWith(each.slice(0, -1)) : text === each))
      expect(new Patterns(patterns).cover(text)).toBe(expected)
    }),
  )
})

function planOf(list: readonly RandomRule[], mode: string) {
  const written = list.map(({ match, keys }, i) => ({
    ...bucketRule(`r${i}`, keys.map(header), 9),
    ...(match && { match: match === 'else' ? match : Object.fromEntries(Object.entries(match).map(([key, each]) => [header(key), each])) }),
  }))
  const parsed = parseBundle(JSON.stringify(bundle(1, policy('p', { mode, rules: written }))))
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
  return compileBundle(parsed.bundle)
}

/** The statements of the policy reference, one after the other. */
function modelOf(list: readonly RandomRule[], given: Readonly<Record<string, string | readonly string[] | undefined>>) {
  const isMissing = (key: string): boolean => given[key] === undefined || given[key] === ''
  const isRepeated = (key: string): boolean => Array.isArray(given[key])
  const matches = ({ match }: RandomRule): boolean =>
    match === undefined ||
    (match !== 'else' &&
      Object.entries(match).every(([key, patterns]) => !isMissing(key) && new Patterns(patterns).cover(given[key] as string)))
  const others = list.filter((each) => each.match !== 'else')
  if (others.some((each) => Object.keys(each.match ?? {}).some(isRepeated))) return 'repeated'
  const matched = others.filter(matches)
  if (matched.some((each) => each.keys.some(isRepeated))) return 'repeated'
  const applied = matched.filter((each) => !each.keys.some(isMissing))
  const isElseReached = !applied.some((each) => each.match !== undefined)
  const reached = list.filter((each) => (each.match === 'else' ? isElseReached : matched.includes(each)))
  if (reached.some((each) => each.keys.some(isRepeated))) return 'repeated'
  const missing = [...others.flatMap((each) => Object.keys(each.match ?? {})), ...reached.flatMap((each) => each.keys)].filter(isMissing)
  return {
    applied: list.flatMap((each, i) => (reached.includes(each) && !each.keys.some(isMissing) ? [i] : [])),
    missing: new Set(missing.map(header)),
  }
}

function header(key: string): string {
  return `header:${key}`
}
