import { blockedClientsSuite } from '../support/proxy/blocked-clients-suite.ts'
import { PROXY_WIRES } from '../support/run/proxy-wire.ts'

for (const wire of PROXY_WIRES) blockedClientsSuite(wire, 2)
