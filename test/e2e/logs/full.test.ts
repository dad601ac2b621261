import { spawn } from 'node:child_process'
import { openSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { ask } from '../../support/service/http.ts'
import { until } from '../../support/until.ts'

test('a log that cannot be written stops neither decisions nor the shutdown', async () => {
  const entry = fileURLToPath(new URL('../../../dist/cli/main.js', import.meta.url))
  const env = { PATH: process.env['PATH'] ?? '', EDGE_PORT: '0', EDGE_HOST: '127.0.0.1', EDGE_CONFIG_FILE: 'examples/quickstart.json' }
  const service = spawn(process.execPath, [entry, 'serve'], { env, stdio: ['ignore', 'pipe', openSync('/dev/full', 'w')] })
  onTestFinished(() => void service.kill('SIGKILL'))
  let greeting = ''
  service.stdout!.on('data', (chunk: Buffer) => {
    greeting += chunk.toString()
  })
  await until(() => greeting.includes('try'))
  const port = Number(/listens\s+http:\/\/127\.0\.0\.1:(\d+)/.exec(greeting)![1])
  const statuses: number[] = []
  for (let i = 0; i < 6; i++) {
    const fields = [['X-Original-Method', 'GET'] as const, ['X-Original-URI', '/api'] as const, ['X-Api-Key', 'a'] as const]
    statuses.push((await ask(port, 'POST', '/v1/decision', fields)).status)
  }
  expect(statuses).toEqual([200, 200, 200, 200, 200, 429])
  service.kill('SIGTERM')
  const status = await new Promise((resolve) => service.once('exit', resolve))
  expect(status).toBe(0)
})
