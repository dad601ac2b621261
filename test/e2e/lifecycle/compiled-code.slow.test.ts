import { readdir } from 'node:fs/promises'
import module from 'node:module'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { ROOT } from '../../docs/markdown.ts'
import { Cli } from '../../support/service/cli.ts'
import { ask } from '../../support/service/http.ts'

const CACHE = join(ROOT, 'program/cache')

describe.concurrent('the code that V8 compiled when the program was built', () => {
  test.each([
    ['V8 has other flags than in the build', { NODE_OPTIONS: '--max-old-space-size=512' }],
    ['source maps are asked for', { NODE_OPTIONS: '--enable-source-maps' }],
    ['there is no folder for temporary files, so that a child process copies the listening socket', { TMPDIR: '/nowhere' }],
  ])('is no condition: the service starts and stops where %s', async (_, env) => {
    const cli = await Cli.serve({ EDGE_WORKERS: '2', ...env })
    expect((await ask(cli.port, 'GET', '/livez', [])).status).toBe(200)
    expect([await cli.stop(), cli.logged('crashed')]).toEqual([0, []])
  })

  test.runIf('enableCompileCache' in module)('is kept by Node itself where it loads the program, from Node 22.8 on', async () => {
    const cli = await Cli.serve({ NODE_OPTIONS: '--enable-source-maps' })
    expect(await cli.stop()).toBe(0)
    expect(await readdir(join(CACHE, 'node'))).not.toEqual([])
  })
})
