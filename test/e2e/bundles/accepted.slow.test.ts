import { test } from 'vitest'
import { expectTenThousandPolicies } from '../../support/bundles/ten-thousand-policies.ts'

// In YAML: test/campaigns/bundles.test.ts
test('ten thousand policies in bundle.json load and decide, each by its own rule', () => expectTenThousandPolicies('bundle.json'))
