import { templatesSuite } from '../support/llm/templates-suite.ts'

templatesSuite(3000)
