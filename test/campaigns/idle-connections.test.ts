import { idleConnectionsSuite } from '../support/service/crowds.ts'

idleConnectionsSuite(10_000)
