import { spawn } from 'node:child_process'
import { mkdir, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { scratchDirectory } from '../support/service/running.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const PASSES = 'test("t", () => {})'
const FAILS = 'test("t", () => { throw new Error("broken\\nin two lines") })'
const UNHANDLED = 'test("t", () => void Promise.reject(new Error("of nobody")))'
/** The first run creates the file by which the second knows that it is one. */
const failsOnce = (name: string): string =>
  `test("t", () => { try { writeFileSync(${JSON.stringify(name)}, "", { flag: "wx" }) } catch { return } throw new Error("bad luck") })`

describe('a run of all tests', () => {
  test('passes where a file or two fail among the others and pass alone, and names them', async () => {
    const { exitCode, output } = await runAll({ steady: PASSES, one: failsOnce('a'), two: failsOnce('b') })
    expect(exitCode).toBe(0)
    expect(output).toContain('UNSTEADY: one.test.mjs > t: bad luck')
    expect(output).toContain('UNSTEADY: two.test.mjs > t: bad luck')
  })

  test.each([
    ['a file fails twice', { steady: PASSES, one: failsOnce('a'), broken: FAILS }, 'FAILED TWICE: broken.test.mjs > t: broken\n'],
    ['three files are unsteady', { one: failsOnce('a'), two: failsOnce('b'), three: failsOnce('c') }, 'UNSTEADY: three.test.mjs'],
    ['an error belongs to no test', { one: failsOnce('a'), two: UNHANDLED }, 'FAILED:\n  one.test.mjs'],
    ['so many fail that something is broken', Object.fromEntries(Array.from({ length: 11 }, (_, i) => [`f${i}`, FAILS])), 'FAILED:\n'],
  ])('fails where %s', async (_, files, says) => {
    const { exitCode, output } = await runAll(files as Record<string, string>)
    expect([exitCode, output]).toEqual([1, expect.stringContaining(says)])
  })

  test('of chosen files shows their first outcome', async () => {
    const { exitCode, output } = await runAll({ steady: PASSES, one: failsOnce('a') }, 'one')
    expect([exitCode, output]).toEqual([1, expect.not.stringContaining('UNSTEADY')])
  })
})

async function runAll(files: Readonly<Record<string, string>>, ...filters: string[]): Promise<{ exitCode: number | null; output: string }> {
  const folder = await scratchDirectory()
  await mkdir(join(folder, 'node_modules'))
  await symlink(join(ROOT, 'node_modules/vitest'), join(folder, 'node_modules/vitest'))
  const imports = `import { writeFileSync } from 'node:fs'\nimport { test } from 'vitest'\nprocess.chdir(${JSON.stringify(folder)})\n`
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, `${name}.test.mjs`), imports + text)
  const reporter = JSON.stringify(join(ROOT, 'test/support/run/failed-tests.ts'))
  const config = join(folder, 'vitest.config.mjs')
  const test = `{ root: ${JSON.stringify(folder)}, include: ['*.test.mjs'], reporters: ['default', ${reporter}], pool: 'forks' }`
  await writeFile(config, `export default { test: ${test} }`)
  const child = spawn(process.execPath, [join(ROOT, 'scripts/run-tests.mjs'), '--config', config, ...filters], {
    env: { ...process.env, NODE_OPTIONS: '', VITEST: '', NO_COLOR: '1' },
  })
  const output: Buffer[] = []
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (data: Buffer) => void output.push(data))
  const exitCode = await new Promise<number | null>((resolve) => child.on('close', resolve))
  return { exitCode, output: Buffer.concat(output).toString() }
}
