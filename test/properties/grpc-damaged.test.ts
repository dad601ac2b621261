import { damagedCallsSuite } from '../support/grpc/damaged-calls-suite.ts'

damagedCallsSuite(30, 1)
