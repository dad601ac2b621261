import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { ADMIN_ENV, ADMIN_TOKEN } from '../../support/admin/admin-client.ts'
import { ALICE, REJECTING } from '../../support/admin/rejecting-bundle.ts'
import { Cli, ENTRY } from '../../support/service/cli.ts'
import { running, thisTest } from '../../support/service/running.ts'
import { until } from '../../support/until.ts'

test('edge events --follow goes on until Ctrl-C, and ends well', async () => {
  const edge = await running({ bundle: REJECTING, env: ADMIN_ENV })
  const env = { EDGE_ADMIN_URL: `http://127.0.0.1:${edge.adminPort}`, EDGE_ADMIN_TOKEN: ADMIN_TOKEN }
  const cli = new Cli(['events', '--follow'], env)
  thisTest.onTestFinished(() => void cli.process.kill('SIGKILL'))
  await until(() => cli.stdout.includes('  started  '))
  await edge.decideTimes(2, ALICE)
  await until(() => cli.stdout.includes('  reject  '))
  cli.process.kill('SIGINT')
  expect(await cli.exited).toBe(0)
  expect(cli.stderr).toBe('')
})

test('edge events --follow ends when nobody reads its output any more', async () => {
  const edge = await running({ bundle: REJECTING, env: ADMIN_ENV })
  const env = { PATH: process.env['PATH'] ?? '', EDGE_ADMIN_URL: `http://127.0.0.1:${edge.adminPort}`, EDGE_ADMIN_TOKEN: ADMIN_TOKEN }
  const line = `{ '${process.execPath}' '${ENTRY}' events -f; echo "status $?" >&2; } | head -n 1`
  const ended = promisify(execFile)('sh', ['-c', line], { env })
  let isEnded = false
  void ended.finally(() => {
    isEnded = true
  })
  // It notices at the next event.
  for (let i = 0; !isEnded; i++) {
    await edge.publish('{'.repeat(1 + (i % 50)))
    await new Promise((resolve) => setImmediate(resolve))
  }
  const { stdout, stderr } = await ended
  expect(stdout.trimEnd().split('\n')).toHaveLength(1)
  expect(stderr).toBe('status 0\n')
})
