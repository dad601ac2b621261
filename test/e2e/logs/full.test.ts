import { spawn } from 'node:child_process'
import { closeSync, existsSync, openSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { ask } from '../../support/service/http.ts'
import { scratchDirectory } from '../../support/service/running.ts'
import { original } from '../../support/service/wire.ts'
import { until } from '../../support/until.ts'

test('a log that cannot be written stops neither decisions nor the shutdown', async ({ skip }) => {
  if (!existsSync('/dev/full')) skip('there is no /dev/full')
  const path = join(await scratchDirectory(), 'bundle.json')
  await writeFile(path, JSON.stringify(bundle(1, policy('p', { rules: [bucketRule('r', [], 5, 0.001)] }))))
  const entry = fileURLToPath(new URL('../../../program/edge.js', import.meta.url))
  const env = { PATH: process.env['PATH'] ?? '', EDGE_PORT: '0', EDGE_HOST: '127.0.0.1', EDGE_CONFIG_FILE: path, EDGE_WORKERS: '1' }
  const full = openSync('/dev/full', 'w')
  const service = spawn(process.execPath, [entry, 'serve'], { env, stdio: ['ignore', 'pipe', full] })
  closeSync(full)
  onTestFinished(() => void service.kill('SIGKILL'))
  let greeting = ''
  service.stdout!.on('data', (chunk: Buffer) => {
    greeting += chunk.toString()
  })
  await until(() => greeting.includes('try'))
  const port = Number(/listens\s+http:\/\/127\.0\.0\.1:(\d+)/.exec(greeting)![1])
  const statuses: number[] = []
  for (let i = 0; i < 6; i++) {
    statuses.push((await ask(port, 'POST', '/v1/decision', original('/api'))).status)
  }
  expect(statuses).toEqual([200, 200, 200, 200, 200, 429])
  service.kill('SIGTERM')
  const status = await new Promise((resolve) => service.once('exit', resolve))
  expect(status).toBe(0)
})
