import { twoDownstreamsSuite } from '../support/proxy/two-downstreams/suite.ts'

// 10,000, cut in every place, and every way to smuggle: test/campaigns/two-downstreams.test.ts
twoDownstreamsSuite({ requests: 40, lanes: 8, splitStep: 401, corpusStep: 13 })
