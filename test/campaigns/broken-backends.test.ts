import { describe } from 'vitest'
import { LEAVING, ODD, SILENT, TO_BE_CUT } from '../support/proxy/broken-backends.ts'
import { brokenBackendsSuite, cutResponsesSuite } from '../support/proxy/broken-backends-suite.ts'

describe('a backend that leaves in the middle', () => brokenBackendsSuite(LEAVING))

describe('a backend that says what it should not', () => brokenBackendsSuite(ODD))

describe('a backend that falls silent', () =>
  // Longer than a busy machine needs for what a backend does say.
  brokenBackendsSuite(SILENT, { EDGE_BACKEND_HEADERS_TIMEOUT_MS: '2000', EDGE_BACKEND_IDLE_TIMEOUT_MS: '2000' }))

describe('a response that is cut in two at every byte', () => cutResponsesSuite(TO_BE_CUT))
