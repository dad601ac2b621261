import { twoDownstreamsSuite } from '../support/proxy/two-downstreams/suite.ts'

// More of each: test/campaigns/two-downstreams.test.ts
twoDownstreamsSuite({ requests: 1000, splitStep: 37 })
