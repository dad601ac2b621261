import { sameLayersSuite } from '../support/grpc/same-layers-suite.ts'

sameLayersSuite(5000, 1_000_000)
