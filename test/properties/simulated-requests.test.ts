import { simulatedRequestsSuite } from '../support/simulation/simulated-requests-suite.ts'

simulatedRequestsSuite(2, 12, 1)
