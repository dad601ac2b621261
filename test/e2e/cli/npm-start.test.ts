import { spawnSync } from 'node:child_process'
import { chmodSync, cpSync, mkdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { ROOT, readText } from '../../docs/markdown.ts'
import { scratchDirectory } from '../../support/service/running.ts'

/** `scripts/start.mjs` in a small checkout, with an `npm` that only says what it was asked to do. */

const BUILT_S = 1_000_000_000
const STARTED = 'serve examples/quickstart.json\n'

test('`npm start` is scripts/start.mjs, and needs no build before it', () => {
  const { scripts } = JSON.parse(readText('package.json')) as { scripts: Record<string, string> }
  expect(scripts['start']).toBe('exec node scripts/start.mjs')
})

test('`npm start` builds nothing where nothing has changed', async () => {
  expect(start(await checkout())).toEqual({ status: 0, stdout: STARTED })
})

test.each<[string, string, (folder: string) => void]>([
  ['a source', 'src/inner/a.ts has changed since the last build', (folder) => touch(folder, 'src/inner/a.ts')],
  ['a file of the page', 'console/app.tsx has changed since the last build', (folder) => touch(folder, 'console/app.tsx')],
  ['a removed source', 'src/inner has changed since the last build', (folder) => rmSync(join(folder, 'src/inner/b.ts'))],
  ['the lockfile', 'package-lock.json has changed since the last build', (folder) => touch(folder, 'package-lock.json')],
  [
    'what is installed',
    'node_modules/.package-lock.json has changed since the last build',
    (folder) => touch(folder, 'node_modules/.package-lock.json'),
  ],
  ['no program', 'there is no complete build yet', (folder) => rmSync(join(folder, 'program/edge.js'))],
  ['an interrupted build', 'there is no complete build yet', (folder) => chmodSync(join(folder, 'program/edge.js'), 0o644)],
])('`npm start` builds first, and says why: %s', async (_, reason, change) => {
  const folder = await checkout()
  change(folder)
  const { status, stdout } = start(folder)
  expect({ status, stdout }).toEqual({
    status: 0,
    stdout: `npm start: building first, because ${reason}; this takes some seconds\nnpm run --silent build\n${STARTED}`,
  })
})

test('a changed test is no reason to build', async () => {
  const folder = await checkout()
  touch(folder, 'src/inner/a.test.ts')
  expect(start(folder).stdout).toBe(STARTED)
})

test('without a compiler the build that is there is run', async () => {
  const folder = await checkout()
  rmSync(join(folder, 'node_modules/typescript'), { recursive: true })
  touch(folder, 'node_modules/.package-lock.json')
  expect(start(folder).stdout).toBe(STARTED)
})

test('nothing is started where the build fails', async () => {
  const folder = await checkout()
  touch(folder, 'src/inner/a.ts')
  const { status, stdout } = start(folder, { FAILS_WITH: '3' })
  expect(status).toBe(3)
  expect(stdout).not.toContain(STARTED)
})

const PROGRAM = 'console.log(process.argv[2], process.env.EDGE_CONFIG_FILE)\n'
/** It builds as `npm run build` does: a new program, executable at the end. */
const NPM = `#!/bin/sh
echo "npm $*"
printf '%s' "$PROGRAM" > program/edge.js && chmod 755 program/edge.js
exit "\${FAILS_WITH:-0}"
`

const FILES: Readonly<Record<string, string>> = {
  'package.json': '{ "type": "module" }',
  'package-lock.json': '{}',
  'node_modules/.package-lock.json': '{}',
  'node_modules/typescript/package.json': '{}',
  'src/inner/a.ts': '',
  'src/inner/b.ts': '',
  'src/inner/a.test.ts': '',
  'console/app.tsx': '',
  'dist/cli/main.js': '',
  'program/edge.js': PROGRAM,
  'bin/npm': NPM,
}

/** Everything in it is as old as its build. */
async function checkout(): Promise<string> {
  const folder = await scratchDirectory()
  for (const [path, text] of Object.entries(FILES)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), text)
  }
  mkdirSync(join(folder, 'scripts'))
  cpSync(join(ROOT, 'scripts/start.mjs'), join(folder, 'scripts/start.mjs'))
  for (const path of ['program/edge.js', 'bin/npm']) chmodSync(join(folder, path), 0o755)
  const aged = [...Object.keys(FILES), 'scripts/start.mjs', 'scripts', 'src/inner', 'src', 'console']
  for (const path of aged) utimesSync(join(folder, path), BUILT_S, BUILT_S)
  return folder
}

function touch(folder: string, path: string): void {
  utimesSync(join(folder, path), BUILT_S + 1, BUILT_S + 1)
}

function start(folder: string, env: Readonly<Record<string, string>> = {}): { status: number | null; stdout: string } {
  const { status, stdout } = spawnSync(process.execPath, ['scripts/start.mjs'], {
    cwd: folder,
    env: { PATH: `${join(folder, 'bin')}:${process.env['PATH']}`, PROGRAM, ...env },
    encoding: 'utf8',
  })
  return { status, stdout }
}
