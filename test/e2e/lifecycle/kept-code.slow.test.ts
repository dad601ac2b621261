import { expect, test } from 'vitest'
import { Cli } from '../../support/service/cli.ts'
import { until } from '../../support/until.ts'

/** V8 says this when it gives memory back because little goes on. What nobody needs at that moment goes as well, and that may be all optimized code. */
const REDUCED = /^\[\d+:(0x[0-9a-f]+)\].*Mark-Compact \(reduce\)/gm

test('an idle main thread gives memory back, and no worker forgets its code', async () => {
  const env = { EDGE_PORT: '0', EDGE_HOST: '127.0.0.1', EDGE_WORKERS: '2' }
  const cli = new Cli(['serve'], env, { nodeFlags: ['--trace-gc'] })
  // Workers would do so before the main thread, which is busier.
  const reduced = (): string[] => [...cli.stdout.matchAll(REDUCED)].map(([, thread]) => thread!)
  await until(() => reduced().length > 1)
  const [, mainThread] = /^\[\d+:(0x[0-9a-f]+)\]/m.exec(cli.stdout)!
  expect([new Set(reduced()), await cli.stop()]).toEqual([new Set([mainThread]), 0])
})
