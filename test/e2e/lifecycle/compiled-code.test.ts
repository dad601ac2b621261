import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { ROOT } from '../../docs/markdown.ts'
import { Cli } from '../../support/service/cli.ts'
import { until } from '../../support/until.ts'

const REPORTER = join(ROOT, 'test/support/service/report-rejected-code.cjs')
const CACHE = join(ROOT, 'program/cache')

describe.concurrent('the code that V8 compiled when the program was built', () => {
  test('is there for the entries of all threads that a start has, for this Node', async () => {
    const [folder, ...others] = (await readdir(CACHE)).filter((name) => name !== 'node')
    expect([folder, others]).toEqual([expect.stringMatching(`^${process.version}-`), []])
    const names = await readdir(join(CACHE, folder!))
    const expected = ['edge-main', 'serve-main', 'worker-thread-main', 'worker-thread-decision-server', 'worker-thread-proxy-listeners']
    expect(names).toEqual(expect.arrayContaining(expected.map((name) => `${name}.js.code`)))
  })

  test('is taken by all threads, whatever flags of V8 the program sets', async () => {
    const env = { EDGE_PORT: '0', EDGE_HOST: '127.0.0.1', EDGE_WORKERS: '2' }
    const cli = new Cli(['serve'], env, { nodeFlags: ['--require', REPORTER] })
    await until(() => cli.stdout.includes('listens'))
    expect(await cli.stop()).toBe(0)
    expect(cli.stderr.match(/^rejected .*/gm)).toBe(null)
    expect(cli.stderr.match(/^taken edge\/worker-thread-main.js$/gm)).toHaveLength(2)
  })
})
