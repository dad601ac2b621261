import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'

/** `npm test`: each promise once. What needs more time is in `test/campaigns/`, what needs a browser in `test/console/`, what needs a gateway in `test/gateways/`, what installs the package in `test/packaging/`: `npm run test:full`. */
export default defineConfig({
  test: {
    include: ['src/**/*.test.ts', 'test/**/*.test.ts'],
    exclude: ['test/campaigns/**', 'test/console/**', 'test/gateways/**', 'test/packaging/**'],
    setupFiles: ['test/support/run/poisoned-reads.ts'],
    globalSetup: ['test/support/run/built-program.ts', 'test/support/run/leftovers.ts'],
    // Files share the modules that a worker has loaded: loading them anew for each took longer than most tests.
    isolate: false,
    // Most tests wait for sockets, timers and processes: with one worker a core, cores would be idle for a third of the time.
    maxWorkers: Math.ceil(availableParallelism() * 2),
    testTimeout: 20_000,
    hookTimeout: 20_000,
  },
})
