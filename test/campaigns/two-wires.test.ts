import { twoWiresSuite } from '../support/service/two-wires-suite.ts'

twoWiresSuite(50_000)
