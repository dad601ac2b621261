import { execFileSync, spawn } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { replaceFile } from '../support/bundles/bundle-file.ts'
import { bundle, policy } from '../support/bundles/bundles.ts'
import { ask } from '../support/service/http.ts'
import { scratchDirectory, serving } from '../support/service/running.ts'
import { untilLogged } from '../support/service/until-logged.ts'
import { until } from '../support/until.ts'

test('a pipe where the bundle belongs leaves the service live and not ready', async () => {
  const path = join(await scratchDirectory(), 'bundle.json')
  execFileSync('mkfifo', [path])
  const cli = await serving({ EDGE_CONFIG_FILE: path })
  expect((await ask(cli.port, 'GET', '/livez')).status).toBe(200)
  expect((await ask(cli.port, 'GET', '/readyz')).status).toBe(503)
  expect((await untilLogged(cli, 'bundle_unreadable'))[0]).toMatchObject({ reason: 'it is not a regular file' })
  expect(await cli.stop()).toBe(0)
})

test('a log reader that sleeps stops neither answers nor the shutdown', async () => {
  const path = join(await scratchDirectory(), 'bundle.json')
  const wrong = Array.from({ length: 60 }, (_, i) => policy(`${'x'.repeat(60)}${i}\n`, { rules: [] }))
  await replaceFile(path, JSON.stringify(bundle(1, ...wrong)))
  const entry = fileURLToPath(new URL('../../program/edge.js', import.meta.url))
  const env = { PATH: process.env['PATH'] ?? '', EDGE_PORT: '0', EDGE_HOST: '127.0.0.1', EDGE_CONFIG_FILE: path }
  const service = spawn(process.execPath, [entry, 'serve'], { env, stdio: ['ignore', 'pipe', 'pipe'] })
  onTestFinished(() => void service.kill('SIGKILL'))
  let greeting = ''
  service.stdout.on('data', (chunk: Buffer) => {
    greeting += chunk.toString()
  })
  await until(() => greeting.includes('bundle'))
  const port = Number(/listens\s+http:\/\/127\.0\.0\.1:(\d+)/.exec(greeting)![1])
  const refused = async (): Promise<number> =>
    Number(/edge_bundle_reloads_total\{result="refused"\} (\d+)/.exec((await ask(port, 'GET', '/metrics')).body)![1])
  // Nobody reads standard error: each reload adds some ten kilobytes to a pipe that holds at most some hundred.
  while ((await refused()) < 40) service.kill('SIGHUP')
  expect((await ask(port, 'GET', '/livez')).status).toBe(200)
  service.kill('SIGTERM')
  expect(await new Promise((resolve) => service.once('exit', resolve))).toBe(0)
})
