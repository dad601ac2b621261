import { defineConfig } from 'vitest/config'

/** `npm test`: each promise once. What needs more parts or more time is in `test/campaigns/`, for `npm run test:full`. */
export default defineConfig({
  test: {
    include: ['src/**/*.test.ts', 'test/**/*.test.ts'],
    exclude: ['test/campaigns/**'],
    globalSetup: ['test/support/run/leftovers.ts'],
    // Files share the modules that a worker has loaded: loading them anew for each took longer than most tests.
    isolate: false,
    // Most tests wait for sockets and processes: all cores may, not all but one.
    maxWorkers: '100%',
    testTimeout: 20_000,
    hookTimeout: 20_000,
  },
})
