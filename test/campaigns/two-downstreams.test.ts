import { twoDownstreamsSuite } from '../support/proxy/two-downstreams/suite.ts'

twoDownstreamsSuite({ requests: 50_000, splitStep: 1 })
