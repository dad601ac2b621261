import { twoWiresSuite } from '../support/service/two-wires-suite.ts'

// 15,000: test/campaigns/two-wires.test.ts
twoWiresSuite({ heads: 50, batch: 1, oddStep: 29 })
