import { describeWith } from '../describe-with.ts'
import { callerSuite } from './caller-suite.ts'
import { connectionSuite } from './connection-suite.ts'
import { failureSuite } from './failure-suite.ts'
import { forgerySuite } from './forgery-suite.ts'
import type { Gateway } from './gateway.ts'
import { hostSuite } from './host-suite.ts'
import { pathSuite } from './path-suite.ts'
import { trafficSuite } from './traffic-suite.ts'
import { upgradeSuite } from './upgrade-suite.ts'

/** What every gateway must do with the configuration that the documentation recommends. */
export function gatewaySuite(gateway: Gateway): void {
  describeWith(gateway.missing, `${gateway.name} with the documented configuration`, () => {
    trafficSuite(gateway)
    callerSuite(gateway)
    connectionSuite(gateway)
    failureSuite(gateway)
    forgerySuite(gateway)
    hostSuite(gateway)
    pathSuite(gateway)
    upgradeSuite(gateway)
  })
}
