import { expect, test } from 'vitest'
import { parseBundle } from '../../src/policy/parse.ts'
import { aliased } from '../support/bundles/bundles.ts'
import { expectTenThousandPolicies } from '../support/bundles/ten-thousand-policies.ts'

test('a bundle that aliases blow up to almost as many values as may be is refused with the first thousand problems', () => {
  const parsed = parseBundle(aliased(491, 500), 'yaml')
  expect(parsed).toMatchObject({ ok: false, problems: { length: 1001 } })
})

test('ten thousand policies in bundle.yaml load and decide, each by its own rule', () => expectTenThousandPolicies('bundle.yaml'))
