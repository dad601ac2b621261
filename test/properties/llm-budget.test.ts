import { llmBudgetSuite } from '../support/llm/llm-budget-suite.ts'

// Far more: test/campaigns/llm-streams.test.ts
llmBudgetSuite(2, 5)
