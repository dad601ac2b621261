import { manyStreamsSuite } from '../../support/llm/many-streams-suite.ts'

// A thousand: test/campaigns/llm-streams.test.ts
manyStreamsSuite(40)
