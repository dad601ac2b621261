import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { CallersJson } from '../../src/admin/api/caller-types.ts'
import { ADMIN_ENV } from '../support/admin/admin-client.ts'
import { callers } from '../support/admin/callers.ts'
import { explained } from '../support/admin/explained.ts'
import { blockRule, bucketRule, bundle, matching, policy } from '../support/bundles/bundles.ts'
import { runs } from '../support/run/property-runs.ts'
import type { Edge } from '../support/service/edge.ts'
import { running } from '../support/service/running.ts'

// Few names and values, so that rules and requests meet often.
const NAMES = ['a', 'b', 'c']
const headers = fc
  .array(fc.option(fc.constantFrom('x', 'xy', 'y'), { nil: undefined }), { minLength: 3, maxLength: 3 })
  .map(
    (values): Record<string, string> =>
      Object.fromEntries(NAMES.flatMap((name, i) => (values[i] === undefined ? [] : [[name, values[i]]]))),
  )
const match = fc.dictionary(fc.constantFrom(...NAMES), fc.constantFrom('x', 'x*', 'y', '*'), { minKeys: 1, maxKeys: 2 })
const limitKeys = fc.uniqueArray(fc.constantFrom(...NAMES), { maxLength: 2 })
const EXPIRY = [{}, { expires_at: '2020-01-01T00:00:00Z' }]

interface RandomRule {
  readonly match: 'else' | Readonly<Record<string, string>> | undefined
  readonly limitKeys: readonly string[]
  /** Undefined: it is no block. */
  readonly block: object | undefined
}

const limited = fc.record({ match: fc.option(match, { nil: undefined }), limitKeys, block: fc.constant(undefined) })
const block = fc.record({ match, limitKeys: fc.constant([]), block: fc.constantFrom(...EXPIRY) })
const other = fc.record({ match: fc.constant('else' as const), limitKeys, block: fc.option(fc.constant({}), { nil: undefined }) })
const rules: fc.Arbitrary<RandomRule[]> = fc
  .tuple(fc.array(fc.oneof(limited, limited, block), { maxLength: 3 }), other)
  .map(([list, last]) => [...list, last.block === undefined ? last : { ...last, limitKeys: [] }])

interface RandomCase {
  readonly rules: readonly RandomRule[]
  readonly headers: Readonly<Record<string, string>>
  /** Chooses some of the headers, by its bits. */
  readonly pick: number
}

/** Each case has a policy of its own, and a request that only this policy selects. */
const cases: fc.Arbitrary<RandomCase[]> = fc.array(fc.record({ rules, headers, pick: fc.nat() }), { minLength: 25, maxLength: 25 })

test('whatever rule rejects a request of a caller is among those that are listed for any of its values', async () => {
  const edge = await running({ bundle: bundle(1), env: ADMIN_ENV })
  let version = 1
  let rejects = 0
  await fc.assert(
    fc.asyncProperty(cases, async (list) => {
      // One bundle for many cases: the service looks at its file only a few times a second.
      const policies = list.map((each, i) => policy(`p${i}`, { selector: { pathPrefix: uriOf(i) }, rules: each.rules.map(written) }))
      await edge.publish(bundle(++version, ...policies))
      for (const [i, each] of list.entries()) rejects += await rejectsOf(edge, i, each)
    }),
    { numRuns: runs(1), seed: 7 },
  )
  expect(rejects).toBeGreaterThan(5)
})

/** Returns 1 if the second request is rejected, after it has shown that the rule is listed. */
async function rejectsOf(edge: Edge, i: number, { rules: list, headers: given, pick }: RandomCase): Promise<number> {
  const uri = uriOf(i)
  const request = { uri, fields: Object.entries(given) }
  await edge.decide(request)
  const { action, rule } = await explained(edge.adminPort, { method: 'GET', uri, headers: given, body: '' })
  expect((await edge.decide(request)).status === 200).toBe(action === 'allow')
  if (action !== 'reject') return 0
  const rejecting = list[Number(rule!.slice(1))]!
  const asked = { policy: `p${i}` }
  const all = Object.entries(given)
  const some = all.filter((_, at) => (pick >> at) % 2 === 1)
  for (const values of [all, some]) {
    if (!isAbout(rejecting, list, values)) continue
    const byKey = Object.fromEntries(values.map(([key, value]) => [header(key), value]))
    expect(listed(await callers(edge, { ...asked, values: byKey }))).toContain(rule)
  }
  for (const [key, value] of all)
    if (rejecting.limitKeys.includes(key)) expect(listed(await callers(edge, { ...asked, value }))).toContain(rule)
  return 1
}

function uriOf(i: number): string {
  return `/${i}/`
}

function written({ match: given, limitKeys: keys, block: config }: RandomRule, i: number): object {
  const rule = config === undefined ? bucketRule(`r${i}`, keys.map(header), 1, 0.0001) : blockRule(`r${i}`, 'else', config)
  if (given === undefined) return rule
  return matching(given === 'else' ? given : Object.fromEntries(Object.entries(given).map(([name, each]) => [header(name), each])), rule)
}

/** Rules that ask for none of the values concern everybody alike. An `else` asks for what the other rules ask for. */
function isAbout(rule: RandomRule, all: readonly RandomRule[], values: readonly (readonly [string, string])[]): boolean {
  const asking = rule.match === 'else' ? [rule, ...all.filter((each) => each.match !== undefined)] : [rule]
  return asking.some(({ match: given, limitKeys: keys }) =>
    values.some(([name]) => keys.includes(name) || (typeof given === 'object' && name in given)),
  )
}

function listed({ rules: complete, incomplete_rules: incomplete }: CallersJson): string[] {
  return [...complete, ...incomplete].map(({ rule }) => rule)
}

function header(name: string): string {
  return `header:${name}`
}
