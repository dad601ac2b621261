import { largeBodySuite } from '../support/proxy/large-bodies.ts'

largeBodySuite(1024, 128)
