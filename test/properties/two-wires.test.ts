import { twoWiresSuite } from '../support/service/two-wires-suite.ts'

// 50,000: test/campaigns/two-wires.test.ts
twoWiresSuite({ heads: 100, batch: 4, oddStep: 29 })
