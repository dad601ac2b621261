import { llmBudgetSuite } from '../support/llm/llm-budget-suite.ts'

// Ten times as many: test/campaigns/llm-streams.test.ts
llmBudgetSuite(30, 60)
