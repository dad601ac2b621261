import { explainedRequestsSuite } from '../support/admin/explained-requests-suite.ts'

explainedRequestsSuite(30, 30)
