import { expect, test } from 'vitest'
import { bundle } from '../../test/support/bundles/bundles.ts'
import { planOf } from '../../test/support/bundles/compiled-rule.ts'
import { CALLERS } from '../../test/support/callers/good-callers.ts'
import type { LabelSource } from '../policy/schema/callers.ts'
import { isVerified } from '../request/caller.ts'
import { claimedCaller } from './claimed-caller.ts'

const [OKTA] = CALLERS.jwt

test('the issuer chooses the entry, and may be left out where there is one', () => {
  const one = callersOf({ jwt: [OKTA] })
  const two = callersOf({ jwt: [OKTA, { ...OKTA, name: 'other', issuer: 'b' }] })
  expect(claimedCaller(one, { sub: 'ada' })).toMatchObject({ id: 'okta:ada' })
  expect(claimedCaller(two, { iss: 'b', sub: 'ada' })).toMatchObject({ id: 'other:ada', claims: { iss: 'b', sub: 'ada' } })
  expect(claimedCaller(two, { sub: 'ada' })).toEqual({ problem: 'issuer' })
  expect(claimedCaller(one, { iss: 'c', sub: 'ada' })).toEqual({ problem: 'issuer' })
  expect([claimedCaller(one, {}), claimedCaller(one, { sub: 1 }), claimedCaller(one, { sub: '' })]).toEqual(
    Array(3).fill({ problem: 'claims' }),
  )
})

test.each<[string, LabelSource, object, string | undefined]>([
  ['a text', { claim: 'team' }, { team: 'blue' }, 'blue'],
  ['a number', { claim: 'team' }, { team: 7 }, '7'],
  ['the alphabetically first of a list', { claim: 'groups' }, { groups: ['b', 'a', 7, null] }, 'a'],
  ['the first that a prefix covers', { claim: 'groups', first: 'team-*' }, { groups: ['a', 'team-z', 'team-c'] }, 'team-c'],
  ['inside an object', { claim: 'org.team' }, { org: { team: 'blue' } }, 'blue'],
  ['a name with a dot', { claim: 'org.team' }, { 'org.team': 'red', org: { team: 'blue' } }, 'red'],
  ['the default, if none fits', { claim: 'groups', first: 'team-*', default: 'none' }, { groups: ['a'] }, 'none'],
  ['the default, if there is no claim', { claim: 'groups', default: 'none' }, {}, 'none'],
  ['nothing without a default', { claim: 'groups' }, { groups: [] }, undefined],
  ['nothing of an object', { claim: 'org' }, { org: { team: 'blue' } }, undefined],
  ['nothing of what every object has', { claim: 'constructor.name' }, {}, undefined],
])('a label is %s', (_, source, claims, label) => {
  const verdict = claimedCaller(callersOf({ jwt: [{ ...OKTA, labels: { team: source } }] }), { sub: 'ada', ...claims })
  expect(isVerified(verdict) && verdict.labels.get('team')).toBe(label)
})

function callersOf(callers: object) {
  return planOf({ ...bundle(1), callers }).callers!.source
}
