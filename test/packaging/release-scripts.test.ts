import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { appendFile, chmod, mkdir, readdir, symlink, writeFile } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { type Finished, run, succeed } from '../support/packaging/npm.ts'
import { ROOT } from '../support/packaging/source-copy.ts'
import { scratchDirectory } from '../support/service/running.ts'
import { until } from '../support/until.ts'

const AUTHOR = ['-c', 'user.name=a', '-c', 'user.email=a@example.com', '-c', 'commit.gpgsign=false'] as const

function refused(sentence: RegExp): object {
  return { status: 1, stdout: '', stderr: expect.stringMatching(sentence) }
}

describe('release/image.sh', () => {
  /** Run in a folder of its own, in which it must leave nothing. */
  async function refusedImage(...args: string[]): Promise<Finished> {
    const folder = await scratchDirectory()
    await mkdir(join(folder, 'there'))
    const finished = await run(folder, 'sh', join(ROOT, 'release/image.sh'), ...args)
    expect(await readdir(folder)).toEqual(['there'])
    return finished
  }

  test('wants a path where nothing is yet, as seen from where it is called', async () => {
    expect(await refusedImage()).toEqual(refused(/^Usage: release\/image\.sh DIRECTORY \[ARCHITECTURE\.\.\.\]\n$/))
    expect(await refusedImage('there')).toEqual(refused(/\/there: expected a path where nothing is yet\n$/))
  })

  test('knows two architectures', async () => {
    expect(await refusedImage('image', 'amd64', 'riscv64')).toEqual(refused(/^riscv64: expected amd64 or arm64\n$/))
  })

  test('says what is missing: a build, or mmdebstrap', async () => {
    const unbuilt = await scratchDirectory()
    await mkdir(join(unbuilt, 'release'))
    await succeed(unbuilt, 'cp', join(ROOT, 'release/image.sh'), 'release')
    expect(await run(unbuilt, 'sh', 'release/image.sh', 'image')).toEqual(refused(/^program\/edge\.js: missing; npm ci builds it\n$/))
    const folder = await scratchDirectory()
    for (const program of ['sh', 'realpath', 'dirname']) await symlink(await pathOf(program), join(folder, program))
    const script = join(ROOT, 'release/image.sh')
    expect(await run(folder, 'env', `PATH=${folder}`, 'sh', script, 'image')).toEqual(
      refused(/^mmdebstrap: not installed; on Debian: apt-get/),
    )
  })

  test.each(['SIGINT', 'SIGTERM'] as const)('%s in the middle leaves nothing behind', async (signal) => {
    const folder = await scratchDirectory()
    const [programs, temporary, out] = ['programs', 'temporary', 'out'].map((name) => join(folder, name)) as [string, string, string]
    for (const each of [programs, temporary, out]) await mkdir(each)
    // Node comes first: its download does not end by itself.
    await writeFile(join(programs, 'npm'), `#!/bin/sh\ntouch '${folder}/started'\nexec sleep 1000000\n`)
    await writeFile(join(programs, 'mmdebstrap'), '#!/bin/sh\n')
    for (const name of await readdir(programs)) await chmod(join(programs, name), 0o755)
    const env = { ...process.env, TMPDIR: temporary, PATH: `${programs}${delimiter}${process.env['PATH']}` }
    const script = join(ROOT, 'release/image.sh')
    const image = spawn('sh', [script, join(out, 'image')], { env, detached: true, stdio: 'ignore' })
    const exited = new Promise((resolve) => image.on('close', resolve))
    await until(() => existsSync(join(folder, 'started')))
    // As a terminal does: to all processes of the group.
    process.kill(-image.pid!, signal)
    expect(await exited).toBe(1)
    expect([await readdir(temporary), await readdir(out)]).toEqual([[], []])
  })
})

describe('release/make.sh', () => {
  /** A clean checkout of nothing but the script and a file. */
  async function checkout(): Promise<string> {
    const source = await scratchDirectory()
    await mkdir(join(source, 'release'))
    await succeed(source, 'cp', join(ROOT, 'release/make.sh'), 'release')
    await writeFile(join(source, 'README.md'), '')
    await succeed(source, 'git', 'init', '--quiet')
    await succeed(source, 'git', 'add', '--all')
    await succeed(source, 'git', ...AUTHOR, 'commit', '--quiet', '--message', 'all')
    return source
  }

  test('refuses a checkout that differs from its commit, a folder with files, and a key that it cannot read', async () => {
    const source = await checkout()
    const folder = await scratchDirectory()
    await mkdir(join(folder, 'full/of'), { recursive: true })
    const make = (...args: string[]): Promise<Finished> => run(folder, 'sh', join(source, 'release/make.sh'), ...args)
    expect(await make()).toEqual(refused(/^Usage: release\/make\.sh DIRECTORY \[KEY\]/))
    expect(await make('full')).toEqual(refused(/\/full: expected an empty folder, or a path where nothing is yet\n$/))
    expect(await make('out', 'key')).toEqual(refused(/\/key: not readable\n$/))
    await appendFile(join(source, 'README.md'), 'changed')
    expect(await make('out')).toEqual(refused(/differs from its commit[\s\S]*\n M README\.md\n$/))
    expect(await readdir(folder)).toEqual(['full'])
  })

  test('stops where an archive cannot be written, and leaves nothing behind', async () => {
    const source = await checkout()
    const folder = await scratchDirectory()
    const [programs, temporary] = [join(folder, 'programs'), join(folder, 'temporary')]
    for (const each of [programs, temporary]) await mkdir(each)
    await writeFile(join(source, 'package.json'), '{ "version": "1.2.3" }')
    await mkdir(join(source, 'package'))
    await succeed(source, 'git', 'add', '--all')
    await succeed(source, 'git', ...AUTHOR, 'commit', '--quiet', '--message', 'version')
    const pack = '[ "$1" = ci ] || { tar -czf "$5/a.tgz" package && echo a.tgz; }'
    await writeFile(join(programs, 'npm'), `#!/bin/sh\n${pack}\n`)
    // The disk is full.
    const tar = `case "$*" in *--mtime*) exit 2 ;; esac; exec ${await pathOf('tar')} "$@"`
    await writeFile(join(programs, 'tar'), `#!/bin/sh\n${tar}\n`)
    for (const name of await readdir(programs)) await chmod(join(programs, name), 0o755)
    const path = `PATH=${programs}${delimiter}${process.env['PATH']}`
    const make = await run(folder, 'env', path, `TMPDIR=${temporary}`, 'sh', join(source, 'release/make.sh'), 'out')
    expect(make).toMatchObject({ status: 2, stdout: '', stderr: 'Building edge 1.2.3\n' })
    expect([(await readdir(folder)).sort(), await readdir(temporary)]).toEqual([['programs', 'temporary'], []])
  })
})

async function pathOf(program: string): Promise<string> {
  return (await succeed('/', 'sh', '-c', `command -v ${program}`)).trim()
}
