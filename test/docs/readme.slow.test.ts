import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { ADMIN_TOKEN } from '../support/admin/admin-client.ts'
import { serving } from '../support/service/running.ts'
import { ROOT, readText } from './markdown.ts'
import { night } from './readme.ts'

const run = promisify(execFile)

test("the README's block for 3 a.m. works as it is typed, in a shell in the checkout", async () => {
  const { block, settings } = night(readText('README.md'))
  const edge = await serving({
    EDGE_ADMIN_PORT: '0',
    EDGE_ADMIN_TOKEN: ADMIN_TOKEN,
    EDGE_CONFIG_FILE: join(ROOT, 'examples/quickstart.json'),
  })
  const [, port] = /admin\s+http:\/\/\S+?:(\d+)/.exec(edge.stdout)!
  // The service that it starts is there already, on a free port and with a known token.
  const typed = block
    .replace(/^npm start & sleep \d+$/m, '')
    .replace(settings['EDGE_ADMIN_PORT']!, port!)
    .replace(settings['EDGE_ADMIN_TOKEN']!, ADMIN_TOKEN)
  const { stdout, stderr } = await run('sh', ['-e', '-c', typed], { cwd: ROOT, env: { PATH: process.env['PATH'], USER: 'ada' } })
  expect(stderr).toBe('')
  expect(stdout).toMatch(/^edge \S+, decision_service, up .*\n.*No problems\.\n.*GET \/api\/hello: allowed.*api-callers.*ticket 4711/s)
})
