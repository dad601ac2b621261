import { idleClientsSuite } from '../support/proxy/idle-clients-suite.ts'
import { idleConnectionsSuite } from '../support/service/crowds.ts'

idleConnectionsSuite(10_000)
idleClientsSuite(5000, 'own', 16)
