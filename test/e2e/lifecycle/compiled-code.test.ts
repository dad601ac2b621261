import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { ROOT } from '../../docs/markdown.ts'

const CACHE = join(ROOT, 'program/cache')

describe.concurrent('the code that V8 compiled when the program was built', () => {
  test('is there for the entries of all threads that a start has, for this Node', async () => {
    const [folder, ...others] = (await readdir(CACHE)).filter((name) => name !== 'node')
    expect([folder, others]).toEqual([expect.stringMatching(`^${process.version}-`), []])
    const names = await readdir(join(CACHE, folder!))
    const expected = ['edge-main', 'serve-main', 'worker-thread-main', 'worker-thread-decision-server', 'worker-thread-proxy-listeners']
    expect(names).toEqual(expect.arrayContaining(expected.map((name) => `${name}.js.code`)))
  })
})
