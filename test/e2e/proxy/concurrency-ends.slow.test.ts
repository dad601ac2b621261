import { COMMON_ENDS, HOLD_ENDS, holdEndsSuite } from '../../support/proxy/hold-ends.ts'

holdEndsSuite(HOLD_ENDS.filter(([end]) => !COMMON_ENDS.includes(end)))
