import { refusedBundlesSuite } from '../../support/bundles/refused-bundles-suite.ts'

// Looking at a file takes a moment: so many services do it side by side.
refusedBundlesSuite(12)
