import { twoWiresSuite } from '../support/service/two-wires-suite.ts'

twoWiresSuite({ heads: 15_000, batch: 20, oddStep: 1 })
