import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'
import { LongestFirst } from './test/support/run/longest-first.ts'
import { proxyTests } from './test/support/run/proxy-tests.ts'
import base from './vitest.config.ts'

const { globalSetup = [], reporters: _ofAllProjects, execArgv = [], ...each } = base.test!

const common = {
  ...each,
  // Campaigns run for long enough to be worth optimizing.
  execArgv: execArgv.filter((each) => !each.startsWith('--interrupt-budget')),
  exclude: [],
  testTimeout: 300_000,
  hookTimeout: 300_000,
  expect: { poll: { timeout: 240_000, interval: 20 } },
}

/** `npm run test:full`: everything. Beside what `npm test` runs: slow tests, long campaigns, a real browser, real gateways and real installations. */
export default defineConfig({
  test: {
    globalSetup,
    reporters: ['default', './test/support/run/failed-tests.ts'],
    sequence: { sequencer: LongestFirst },
    maxWorkers: Math.min(Math.ceil(availableParallelism() * 1.5), 12),
    projects: [
      {
        test: {
          ...common,
          name: 'full',
          // More runs of each property and larger inputs (test/support/run/property-runs.ts), and more patience (test/support/until.ts).
          env: { EDGE_TEST_PROPERTY_RUNS: '30', EDGE_TEST_UNTIL_MS: '240000' },
        },
      },
      {
        test: {
          ...common,
          // All other tests use the proxy's own wire.
          name: 'proxy on node:http',
          include: proxyTests(),
          env: { EDGE_TEST_PROXY_WIRE: 'node', EDGE_TEST_UNTIL_MS: '240000' },
        },
      },
    ],
  },
})
