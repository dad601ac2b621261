import { damagedCallsSuite } from '../support/grpc/damaged-calls-suite.ts'

damagedCallsSuite(5000, 1_000_000)
