import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { bundle } from '../../support/bundles/bundles.ts'
import { scratchDirectory, serving } from '../../support/service/running.ts'
import { until } from '../../support/until.ts'

/** With a port that no other test has. It is not a request for a debugger. */
const PORT = '--inspect-port=0'

test('SIGUSR1 opens no debugger, in no thread', async () => {
  const edge = await serving({ ...(await withBundle()), EDGE_WORKERS: '2' }, [], undefined, { nodeFlags: [PORT] })
  edge.process.kill('SIGUSR1')
  edge.process.kill('SIGUSR1')
  for (let i = 0; i < 20; i++) await fetch(`http://127.0.0.1:${edge.port}/`)
  expect(await edge.stop()).toBe(0)
  expect(edge.stderr).not.toContain('Debugger')
})

test('a debugger that SIGUSR1 opened before the first line of the program ran is closed', async () => {
  const directory = await scratchDirectory({ onTestFinished })
  const early = join(directory, 'early.cjs')
  await writeFile(early, "if (require('node:worker_threads').isMainThread) process.kill(process.pid, 'SIGUSR1')\n")
  const edge = await serving(await withBundle(), [], undefined, { nodeFlags: [PORT, '--require', early] })
  await until(() => edge.stderr.includes('Debugger listening'))
  const url = /ws:\/\/(127\.0\.0\.1:\d+)/.exec(edge.stderr)![1]
  const isOpen = (): Promise<boolean> =>
    fetch(`http://${url}/json`).then(
      () => true,
      () => false,
    )
  await until(async () => !(await isOpen()))
})

async function withBundle(): Promise<Record<string, string>> {
  const path = join(await scratchDirectory({ onTestFinished }), 'bundle.json')
  await writeFile(path, JSON.stringify(bundle(1)))
  return { EDGE_CONFIG_FILE: path }
}
