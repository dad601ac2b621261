import { spawn, spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { ADMIN_TOKEN } from '../../support/admin/admin-client.ts'
import { useStubApi } from '../../support/admin/stub-api.ts'
import { topResponse } from '../../support/admin/top.ts'
import { describeWith } from '../../support/describe-with.ts'
import { until } from '../../support/until.ts'

const PROGRAM = fileURLToPath(new URL('../../../program/edge.js', import.meta.url))

const { api } = useStubApi()

const hasScript = spawnSync('script', ['--version']).status === 0
describeWith(hasScript ? undefined : 'script (util-linux) is not installed', 'edge top on a real terminal', () => {
  test.each(['q', '\x03'])('shows its table until %j, and exits with 0', async (key) => {
    api().says(topResponse([{ policy: 'api', rule: 'per-key', values: { 'header:x-k': 'alice' } }]))
    const line = `'${process.execPath}' '${PROGRAM}' top; echo "status $?"`
    const env = { PATH: process.env['PATH'] ?? '', EDGE_ADMIN_URL: api().url, EDGE_ADMIN_TOKEN: ADMIN_TOKEN }
    const terminal = spawn('script', ['-qec', line, '/dev/null'], { env, stdio: ['pipe', 'pipe', 'ignore'] })
    onTestFinished(() => void terminal.kill('SIGKILL'))
    let shown = ''
    terminal.stdout.on('data', (chunk: Buffer) => {
      shown += chunk.toString()
    })
    await until(() => shown.includes('header:x-k=alice'))
    terminal.stdin.write(key)
    await until(() => shown.includes('status '))
    expect(shown).toMatch(/status 0\r\n$/)
  })
})
