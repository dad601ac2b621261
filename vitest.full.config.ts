import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'
import { proxyTests } from './test/support/run/proxy-tests.ts'
import base from './vitest.config.ts'

const { globalSetup = [], ...each } = base.test!

const common = {
  ...each,
  exclude: [],
  // None of them is about time, and machines differ: these only end what hangs. `until` says sooner what it is waiting for.
  testTimeout: 300_000,
  hookTimeout: 300_000,
  expect: { poll: { timeout: 60_000, interval: 100 } },
}

/** `npm run test:full`: long campaigns, a real browser, real gateways and real installations, beside what `npm test` proves. */
export default defineConfig({
  test: {
    globalSetup,
    maxWorkers: Math.ceil(availableParallelism() * 1.5),
    projects: [
      {
        test: {
          ...common,
          name: 'full',
          include: [
            'test/campaigns/**/*.test.ts',
            'test/console/**/*.test.ts',
            'test/gateways/**/*.test.ts',
            'test/packaging/**/*.test.ts',
            'test/properties/**/*.test.ts', // more often each: test/support/run/property-runs.ts
          ],
          env: { EDGE_TEST_PROPERTY_RUNS: '6' },
        },
      },
      {
        test: {
          ...common,
          // `npm test` runs them on the proxy's own wire.
          name: 'proxy on node:http',
          include: proxyTests(),
          env: { EDGE_TEST_PROXY_WIRE: 'node' },
        },
      },
    ],
  },
})
