import { sameLayersSuite } from '../support/grpc/same-layers-suite.ts'

sameLayersSuite(2500, 1_000_000)
