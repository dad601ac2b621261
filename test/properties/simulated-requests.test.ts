import { simulatedRequestsSuite } from '../support/simulation/simulated-requests-suite.ts'

simulatedRequestsSuite(4, 12)
