import { llmBudgetSuite } from '../support/llm/llm-budget-suite.ts'

// Thirty times as many: test/campaigns/llm-streams.test.ts
llmBudgetSuite(10, 20)
