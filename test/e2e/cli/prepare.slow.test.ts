import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { cp, mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { ROOT, readText } from '../../docs/markdown.ts'
import { scratchDirectory } from '../../support/service/running.ts'

/** `scripts/prepare.mjs`, which npm runs when a checkout is installed or packed. Real installations are in `test/packaging/`. */

const SOURCE = 'src/index.ts'
const COMPILER = 'node_modules/typescript/bin/tsc'
const BUNDLER = 'scripts/bundle.mjs'
const BUILT = 'dist/index.js'
const BUNDLED = 'program/edge.js'

describe('npm prepares a checkout', () => {
  test('by what package.json names, which is packed too', () => {
    const { scripts, files } = JSON.parse(readText('package.json')) as { scripts: Record<string, string>; files: string[] }
    expect(scripts['prepare']).toBe('node scripts/prepare.mjs')
    expect(files).toContain('scripts/prepare.mjs')
  })

  test('builds from scratch: nothing of an earlier build is left', async () => {
    const built = { [BUILT]: '', 'dist/old.js': '', [BUNDLED]: '' }
    const folder = await checkout({ [SOURCE]: '', [COMPILER]: compiler(0), [BUNDLER]: "console.log('bundled')", ...built })
    expect(prepared(folder, 'ci')).toEqual({ status: 0, stdout: '-p tsconfig.build.json --noCheck\nbundled\n', stderr: '' })
    for (const built of ['dist', 'program']) expect(existsSync(join(folder, built))).toBe(false) // these write nothing
  })

  test('fails where the build fails', async () => {
    const folder = await checkout({ [SOURCE]: '', [COMPILER]: compiler(2), [BUNDLER]: '' })
    expect(prepared(folder, 'ci').status).toBe(2)
    const other = await checkout({ [SOURCE]: '', [COMPILER]: compiler(0), [BUNDLER]: 'process.exit(3)' })
    expect(prepared(other, 'ci').status).toBe(3)
  })

  test.each(['ci', 'install'])('without a compiler, `npm %s` succeeds and says that nothing was built, and how to', async (command) => {
    const folder = await checkout({ [SOURCE]: '' })
    const { status, stderr } = prepared(folder, command)
    expect([status, stderr]).toEqual([0, expect.stringMatching(/^edge: not built: .*\nTo build, .*: npm ci && npm prune --omit=dev\n$/)])
  })

  test.each(['pack', 'publish'])('without a compiler and without dist/ or program/, `npm %s` fails', async (command) => {
    expect(prepared(await checkout({ [SOURCE]: '' }), command).status).toBe(1)
    expect(prepared(await checkout({ [SOURCE]: '', [BUILT]: '' }), command).status).toBe(1)
  })

  test.each(['ci', 'pack'])('without a compiler, `npm %s` keeps dist/ and program/ and says so', async (command) => {
    const folder = await checkout({ [SOURCE]: '', [BUILT]: '', [BUNDLED]: '' })
    expect(prepared(folder, command)).toMatchObject({ status: 0, stderr: expect.stringContaining('are left as they are') })
    for (const built of [BUILT, BUNDLED]) expect(existsSync(join(folder, built))).toBe(true)
  })

  test("a compiler of another folder's is not used", async () => {
    const folder = await checkout({ [COMPILER]: compiler(0), [`inner/${SOURCE}`]: '', 'inner/scripts/x': '' })
    await cp(join(folder, 'scripts'), join(folder, 'inner/scripts'), { recursive: true })
    expect(prepared(join(folder, 'inner'), 'ci')).toMatchObject({ status: 0, stdout: '' })
  })

  test('leaves an unpacked package alone, which has no source', async () => {
    const folder = await checkout({ [BUILT]: '', [COMPILER]: compiler(2) })
    expect(prepared(folder, 'install')).toEqual({ status: 0, stdout: '', stderr: '' })
    expect(existsSync(join(folder, BUILT))).toBe(true)
  })
})

test('where the bundler cannot run, the build fails and says which Node has it', async () => {
  const countries = 'node_modules/@ip-location-db/geo-whois-asn-country-mmdb/geo-whois-asn-country.mmdb'
  const folder = await checkout({ 'package.json': '{"type":"module"}', 'dist/cli/main.js': '', [countries]: '' })
  for (const script of [BUNDLER, 'scripts/notices.mjs']) await cp(join(ROOT, script), join(folder, script))
  const built = spawnSync(process.execPath, [join(folder, BUNDLER)], { encoding: 'utf8' })
  expect([built.status, built.stderr]).toEqual([
    1,
    expect.stringMatching(/^edge: not built: the bundler needs Node 20\.19 .*rolldown.*\n$/),
  ])
})

async function checkout(files: Readonly<Record<string, string>>): Promise<string> {
  const folder = await scratchDirectory()
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(folder, path)), { recursive: true })
    await writeFile(join(folder, path), text)
  }
  await cp(join(ROOT, 'scripts/prepare.mjs'), join(folder, 'scripts/prepare.mjs'))
  return folder
}

/** One that prints its arguments and builds nothing. */
function compiler(status: number): string {
  return `console.log(process.argv.slice(2).join(' ')); process.exit(${status})`
}

function prepared(folder: string, command: string): { status: number | null; stdout: string; stderr: string } {
  const env = { PATH: process.env['PATH'], npm_command: command }
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(folder, 'scripts/prepare.mjs')], { cwd: '/', env, encoding: 'utf8' })
  return { status, stdout, stderr }
}
