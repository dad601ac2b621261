import { expect, test } from 'vitest'
import { bucketRule, bundle, llmRule, policy } from '../../test/support/bundles/bundles.ts'
import { planOf } from '../../test/support/bundles/compiled-rule.ts'
import { BACKENDS } from '../../test/support/bundles/routed-bundles.ts'
import { CALLERS, GoodCallers } from '../../test/support/callers/good-callers.ts'
import { ManualClock } from '../../test/support/service/manual-clock.ts'
import { PlainRequestView } from '../request/view.ts'
import { newEmbeddedStore } from '../store/table/embedded-store.ts'
import { Engine } from './engine.ts'
import type { Evaluation } from './evaluation.ts'

const TO_A = { backends: [{ name: 'a' }] }
const TO_B = { backends: [{ name: 'b' }, { name: 'c' }], stick_to: ['header:x-user', 'llm:model'] }
