import { describe } from 'vitest'
import { llmBudgetSuite } from '../support/llm/llm-budget-suite.ts'
import { manyStreamsSuite } from '../support/llm/many-streams-suite.ts'
import { streamFatesSuite } from '../support/llm/stream-fates-suite.ts'
import { PROXY_WIRES } from '../support/run/proxy-wire.ts'

llmBudgetSuite(150, 300)

describe.each(PROXY_WIRES)('on the wire %s', (wire) => {
  const env = { EDGE_PROXY_WIRE: wire }
  manyStreamsSuite(1000, env)
  streamFatesSuite(1000, env)
})
