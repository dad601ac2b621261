import { describe, expect, test } from 'vitest'
import { hasMember, listMembers } from './header-fields.ts'

describe('a member of a list', () => {
  test.each(['upgrade', 'Upgrade', 'keep-alive, Upgrade', 'upgrade,close', ' \tUPGRADE\t ', ',upgrade,', 'close ,\tupgrade\t, x'])(
    'is in %j',
    (list) => {
      expect(hasMember(list, 'upgrade')).toBe(true)
    },
  )

  test.each([
    '',
    ',',
    'upgrades',
    'no-upgrade',
    'up grade',
    'upgrade x',
    'x=upgrade',
    '"upgrade"',
    'upgrade;q=1',
    'close\nupgrade',
    'upgrade\xa0',
  ])('is not in %j', (list) => {
    expect(hasMember(list, 'upgrade')).toBe(false)
  })
})

test('members come without the white space around them', () => {
  expect(listMembers(' a,B\t, ,c d')).toEqual(['a', 'B', '', 'c d'])
})
