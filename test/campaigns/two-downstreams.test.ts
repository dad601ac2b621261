import { describe } from 'vitest'
import { smugglingSuite } from '../support/proxy/two-downstreams/smuggling-suite.ts'
import { twoDownstreamsSuite } from '../support/proxy/two-downstreams/suite.ts'

describe('requests of chance and of a corpus', () => twoDownstreamsSuite({ requests: 10_000, lanes: 32, splitStep: 1, corpusStep: 1 }))

describe('smuggling', () => smugglingSuite())
