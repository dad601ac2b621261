import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'

/** What only `npm run test:full` runs: `test/README.md` has the rule. */
const FULL_ONLY = ['**/*.slow.test.ts', 'test/campaigns/**', 'test/console/**', 'test/gateways/**', 'test/packaging/**']

/** `npm test`: each promise once. The aim is two minutes on two cores. */
export default defineConfig({
  test: {
    include: ['src/**/*.test.ts', 'test/**/*.test.ts'],
    exclude: FULL_ONLY,
    setupFiles: ['test/support/run/each-file.ts'],
    globalSetup: ['test/support/run/built-program.ts', 'test/support/run/leftovers.ts'],
    reporters: ['default', './test/support/run/costly-files.ts'],
    // Files share the modules that a worker has loaded: loading them anew for each took longer than most tests.
    isolate: false,
    // Most tests wait for sockets, timers and processes: with one worker a core, cores would be idle for a third of the time.
    maxWorkers: Math.ceil(availableParallelism() * 2),
    // No test is about time, and machines differ: these only end what hangs. `until` says sooner what it was waiting for.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 60_000, interval: 20 } },
  },
})
