import { twoWiresSuite } from '../support/service/two-wires-suite.ts'

twoWiresSuite({ heads: 50_000, oddStep: 1 })
