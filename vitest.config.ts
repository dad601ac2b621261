import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'

/** What only `npm run test:full` runs: `test/README.md` has the rule. */
const FULL_ONLY = ['**/*.slow.test.ts', 'test/campaigns/**', 'test/console/**', 'test/gateways/**', 'test/packaging/**']

/** Little runs often enough to be worth optimizing: a fifth of the CPU time went into that. Later versions have a cheaper compiler for it. */
const OPTIMIZING_LESS = process.versions.node.startsWith('20.') ? ['--interrupt-budget=1000000'] : []

// glibc clears memory that it gives out again. Memory of this size comes cleared from the kernel instead: each edge takes 20 MB and uses little.
process.env['MALLOC_MMAP_THRESHOLD_'] ??= String(1024 * 1024)

/** `npm test`: each promise once. The aim is two minutes on two cores. */
export default defineConfig({
  test: {
    include: ['src/**/*.test.ts', 'test/**/*.test.ts'],
    exclude: FULL_ONLY,
    // Node loads the tests and what they import.
    runner: 'test/support/run/native-runner.mjs',
    server: { deps: { external: [/\/native-runner\.mjs$/] } },
    execArgv: [
      ...['--import', new URL('test/support/run/typescript.mjs', import.meta.url).href, '--enable-source-maps'],
      ...OPTIMIZING_LESS,
    ],
    setupFiles: ['test/support/run/each-file.ts'],
    globalSetup: ['test/support/run/built-program.ts', 'test/support/run/leftovers.ts'],
    reporters: ['default', './test/support/run/costly-files.ts', './test/support/run/failed-tests.ts'],
    // Files share the modules that a worker has loaded: loading them anew for each took longer than most tests.
    isolate: false,
    // Most tests wait for sockets, timers and processes: with one worker a core, cores would be idle for a third of the time. Each loads all of
    // the source and takes some 400 MB, so that more than a few cost more than they win.
    maxWorkers: Math.min(availableParallelism() * 2, 16),
    // No test is about time, and machines differ: these only end what hangs. `until` says sooner what it was waiting for.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 60_000, interval: 20 } },
  },
})
