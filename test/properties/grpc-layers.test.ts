import { sameLayersSuite } from '../support/grpc/same-layers-suite.ts'

sameLayersSuite(40, 1)
