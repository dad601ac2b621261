import { damagedCallsSuite } from '../support/grpc/damaged-calls-suite.ts'

damagedCallsSuite(2500, 1_000_000)
