import { damagedCallsSuite } from '../support/grpc/damaged-calls-suite.ts'

damagedCallsSuite(100, 1)
