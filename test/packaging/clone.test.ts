import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { codeBlocks, readText } from '../docs/markdown.ts'
import { describeWithRegistry, run, succeed } from '../support/packaging/npm.ts'
import { sourceCopy } from '../support/packaging/source-copy.ts'
import { thisTest } from '../support/service/running.ts'

describeWithRegistry('a fresh clone', () => {
  test('`npm ci --omit=dev` succeeds and says how to build; that builds and leaves no compiler behind', { timeout: 600_000 }, async () => {
    const clone = await sourceCopy(thisTest)
    const production = await run(clone, 'npm', 'ci', '--omit=dev')
    expect(production.status, production.stderr).toBe(0)
    expect(existsSync(join(clone, 'dist'))).toBe(false)

    const advice = /^To build.*: (npm .*)$/m.exec(production.stderr)![1]!
    expect(codeBlocks(readText('docs/installation.md'), 'sh').map((block) => block.split('\n')[0])).toContain(advice)
    await succeed(clone, 'sh', '-c', advice)
    expect(existsSync(join(clone, 'node_modules/typescript'))).toBe(false)
    expect(await succeed(clone, process.execPath, 'program/edge.js', 'validate', 'examples/quickstart.json')).toMatch(/: ok\b/)

    // With dist/ there, production installs keep it.
    await succeed(clone, 'npm', 'ci', '--omit=dev')
    expect(existsSync(join(clone, 'program/edge.js'))).toBe(true)
  })
})
