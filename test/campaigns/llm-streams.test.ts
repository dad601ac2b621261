import { llmBudgetSuite } from '../support/llm/llm-budget-suite.ts'
import { manyStreamsSuite } from '../support/llm/many-streams-suite.ts'

llmBudgetSuite(300, 600)
manyStreamsSuite(1000)
