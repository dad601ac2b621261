import { hostileStreamsSuite } from '../support/llm/hostile-streams-suite.ts'

hostileStreamsSuite(100)
