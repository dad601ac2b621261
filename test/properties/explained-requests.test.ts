import { explainedRequestsSuite } from '../support/admin/explained-requests-suite.ts'

explainedRequestsSuite(1, 8, 1)
