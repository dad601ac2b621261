import { availableParallelism } from 'node:os'
import { defineConfig, mergeConfig } from 'vitest/config'
import base from './vitest.config.ts'

/** `npm run test:full`: long campaigns, a real browser, real gateways and real installations, beside what `npm test` proves. */
const full = mergeConfig(base, {
  test: {
    maxWorkers: Math.ceil(availableParallelism() * 1.5),
    testTimeout: 120_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 60_000, interval: 100 } },
    env: { EDGE_TEST_PROPERTY_RUNS: '6' },
  },
})
full.test!.include = [
  'test/campaigns/**/*.test.ts',
  'test/console/**/*.test.ts',
  'test/gateways/**/*.test.ts',
  'test/packaging/**/*.test.ts',
  'test/properties/**/*.test.ts', // more often each: test/support/run/property-runs.ts
]
full.test!.exclude = []
export default defineConfig(full)
