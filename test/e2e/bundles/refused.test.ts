import { refusedBundlesSuite } from '../../support/bundles/refused-bundles-suite.ts'

/** One of each kind: no text, no JSON or YAML, of the wrong shape, with wrong values, and several faults at once. */
const THROUGH_A_SERVICE = new Set([
  'an empty file',
  'half-written JSON',
  'an object with nothing in it',
  'an unknown algorithm',
  'faults in several places',
  'bytes that are no UTF-8',
  'half-written YAML',
  'burst .nan',
])

// All of them: at the intake in src/bundle/bundle-intake.test.ts, through services in refused.slow.test.ts.
refusedBundlesSuite(1, ({ what }) => THROUGH_A_SERVICE.has(what))
