import { templatesSuite } from '../support/llm/templates-suite.ts'
import { runs } from '../support/run/property-runs.ts'

templatesSuite(runs(9))
