import { twoWiresSuite } from '../support/service/two-wires-suite.ts'

// 50,000: test/campaigns/two-wires.test.ts
twoWiresSuite({ heads: 400, oddStep: 7 })
