import { explainedRequestsSuite } from '../support/admin/explained-requests-suite.ts'

explainedRequestsSuite(2, 12, 1)
