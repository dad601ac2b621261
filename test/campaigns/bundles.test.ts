import { expect, test } from 'vitest'
import { parseBundle } from '../../src/policy/parse.ts'
import { aliased } from '../support/bundles/bundles.ts'

test('a bundle that aliases blow up to almost as many values as may be is refused with the first thousand problems', () => {
  const parsed = parseBundle(aliased(491, 500), 'yaml')
  expect(parsed).toMatchObject({ ok: false, problems: { length: 1001 } })
})
