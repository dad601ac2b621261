import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { appendFile, chmod, mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { type Finished, run, succeed } from '../support/packaging/npm.ts'
import { ROOT } from '../support/packaging/source-copy.ts'
import { scratchDirectory } from '../support/service/running.ts'
import { until } from '../support/until.ts'

const AUTHOR = ['-c', 'user.name=a', '-c', 'user.email=a@example.com', '-c', 'commit.gpgsign=false'] as const

/** ssh-keygen then asks this program, which gives none, and neither a terminal nor its input. */
const NO_PASSPHRASE = ['SSH_ASKPASS=/bin/false', 'SSH_ASKPASS_REQUIRE=force'] as const

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
  /** A clean checkout of nothing but the scripts, and of what says that version 1.2.3 is released by whoever has this public key. */
  async function checkout(publicKey = ''): Promise<string> {
    const source = await scratchDirectory()
    await mkdir(join(source, 'release'))
    await succeed(source, 'cp', join(ROOT, 'release/make.sh'), join(ROOT, 'release/publishable.sh'), 'release')
    await writeReleasable(source)
    await writeFile(join(source, 'release/allowed_signers'), `edge-release namespaces="file" ${publicKey}\n`)
    await writeFile(join(source, '.gitignore'), 'program/\ndist/\n')
    await writeFile(join(source, 'README.md'), '')
    await succeed(source, 'git', 'init', '--quiet')
    await succeed(source, 'git', 'add', '--all')
    await succeed(source, 'git', ...AUTHOR, 'commit', '--quiet', '--message', 'all')
    return source
  }

  /** A folder, and a command that makes a release there with these programs in place of the real ones. */
  async function maker(
    source: string,
    programs: Readonly<Record<string, string>>,
  ): Promise<[string, (...args: string[]) => Promise<Finished>]> {
    const folder = await scratchDirectory()
    const [bin, temporary] = [join(folder, 'programs'), join(folder, 'temporary')]
    for (const each of [bin, temporary]) await mkdir(each)
    for (const [name, text] of Object.entries({ mmdebstrap: '', ...programs })) {
      await writeFile(join(bin, name), `#!/bin/sh\n${text}\n`)
      await chmod(join(bin, name), 0o755)
    }
    const path = `PATH=${bin}${delimiter}${process.env['PATH']}`
    return [folder, (...args) => run(folder, 'env', path, `TMPDIR=${temporary}`, 'sh', join(source, 'release/make.sh'), ...args)]
  }

  /** That it has left neither a release nor anything of one. */
  async function expectNothingLeft(folder: string): Promise<void> {
    expect((await readdir(folder)).filter((name) => !name.startsWith('key')).sort()).toEqual(['programs', 'temporary'])
    expect(await readdir(join(folder, 'temporary'))).toEqual([])
  }

  async function newKey(file: string, passphrase = ''): Promise<string> {
    await succeed('/', 'ssh-keygen', '-q', '-t', 'ed25519', '-N', passphrase, '-f', file)
    return readFile(`${file}.pub`, 'utf8')
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

  test('refuses a file that git does not know, even if git is told not to show such files', async () => {
    const source = await checkout()
    await succeed(source, 'git', 'config', 'status.showUntrackedFiles', 'no')
    await writeFile(join(source, 'release/dump.log'), '')
    const [folder, make] = await maker(source, {})
    expect(await make('out')).toEqual(refused(/differs from its commit[\s\S]*\n\?\? release\/dump\.log\n$/))
    await expectNothingLeft(folder)
  })

  test('says at once that a program is missing', async () => {
    const source = await checkout()
    const folder = await scratchDirectory()
    for (const program of ['sh', 'realpath', 'dirname', 'git', 'node', 'npm']) await symlink(await pathOf(program), join(folder, program))
    expect(await run(folder, 'env', `PATH=${folder}`, 'sh', join(source, 'release/make.sh'), 'out')).toEqual(
      refused(/^Not installed: mmdebstrap dpkg dpkg-deb dpkg-query; on Debian: apt-get install mmdebstrap/),
    )
  })

  test('tries the key before anything else: one that needs a passphrase nobody gives, and one that users would not trust', async () => {
    const keys = await scratchDirectory()
    const source = await checkout(await newKey(join(keys, 'key')))
    const [folder, make] = await maker(source, { npm: 'echo built >&2; exit 3' })
    await newKey(join(folder, 'key-other'))
    expect(await make('out', 'key-other')).toEqual(refused(/\/key-other: not a key that release\/allowed_signers names\n$/))
    await newKey(join(folder, 'key-locked'), 'passphrase')
    const locked = await run(folder, 'env', ...NO_PASSPHRASE, 'sh', join(source, 'release/make.sh'), 'out', 'key-locked')
    expect(locked.status).not.toBe(0)
    expect(locked.stderr).not.toContain('Building')
    await succeed(folder, 'rm', 'key-locked', 'key-locked.pub')
    expect(await make('out', join(keys, 'key'))).toEqual({ status: 3, stdout: '', stderr: 'Building edge 1.2.3\nbuilt\n' })
    await expectNothingLeft(folder)
  })

  test('signs nothing that is not a release, and makes it without a signature', async () => {
    const keys = await scratchDirectory()
    const source = await checkout(await newKey(join(keys, 'key')))
    await writeFile(join(source, 'CHANGELOG.md'), '## Unreleased\n\n- new\n\n## 1.2.3\n')
    await succeed(source, 'git', ...AUTHOR, 'commit', '--quiet', '--all', '--message', 'more')
    const [, make] = await maker(source, { npm: 'echo built >&2; exit 3' })
    expect(await make('out', join(keys, 'key'))).toEqual(refused(/^CHANGELOG\.md: something is still below "## Unreleased"/))
    expect(await make('out')).toMatchObject({ status: 3, stderr: expect.stringContaining('built') })
  })

  test('never packs a program that was there before: where npm builds nothing, it stops', async () => {
    const source = await checkout()
    for (const file of ['program/edge.js', 'dist/index.js']) await succeed(source, 'install', '-D', '-m', '755', '/dev/null', file)
    const [folder, make] = await maker(source, { npm: '' })
    expect(await make('out')).toEqual(refused(/\nprogram\/edge\.js: missing, although npm ci should have built it\n$/))
    await expectNothingLeft(folder)
  })

  test('stops where an archive cannot be written, and leaves nothing behind', async () => {
    const pack = 'mkdir package && tar -czf "$5/a.tgz" package && echo a.tgz'
    const [folder, make] = await maker(await checkout(), {
      npm: `if [ "$1" = ci ]; then mkdir program dist && touch program/edge.js dist/index.js; else ${pack}; fi`,
      // The disk is full.
      tar: `case "$*" in *--mtime*) exit 2 ;; esac; exec ${await pathOf('tar')} "$@"`,
    })
    expect(await make('out')).toEqual({ status: 2, stdout: '', stderr: 'Building edge 1.2.3\n' })
    await expectNothingLeft(folder)
  })
})

describe('release/publishable.sh', () => {
  test.each<[what: string, file: string, text: string, tag: string[], says: RegExp]>([
    ['a tag of another version', 'README.md', '', ['v1.2.4'], /^The tag is v1\.2\.4, but package\.json has version 1\.2\.3\. .*\n$/],
    ['a tag without its letter', 'README.md', '', ['1.2.3'], /^The tag is 1\.2\.3, but/],
    [
      'a chart of another version',
      'deploy/helm/edge/Chart.yaml',
      'version: 1.2.2\n',
      [],
      /^deploy\/helm\/edge\/Chart\.yaml has version 1\.2\.2/,
    ],
    ['a changelog without it', 'CHANGELOG.md', '## 1.2.2\n', [], /^CHANGELOG\.md: the newest release is 1\.2\.2, but/],
    [
      'changes without a version',
      'CHANGELOG.md',
      '## Unreleased\n\n### A\n\n## 1.2.3\n',
      [],
      /something is still below "## Unreleased"\. Raise/,
    ],
    ['a version that was released', 'CHANGELOG.md', '## 1.2.3\n- b\n## 1.2.3\n- a\n', [], /there is a release 1\.2\.3 already/],
    ['no public key', 'release/allowed_signers', '', [], /^release\/allowed_signers: missing/],
  ])('refuses %s', async (_what, file, text, tag, says) => {
    const source = await releasable()
    await writeFile(join(source, file), text)
    expect(await run(source, 'sh', 'release/publishable.sh', ...tag)).toEqual(refused(says))
  })

  test('says all that is wrong at once, and nothing where nothing is', async () => {
    const source = await releasable()
    for (const args of [[], ['v1.2.3']])
      expect(await run(source, 'sh', 'release/publishable.sh', ...args)).toEqual({ status: 0, stdout: '', stderr: '' })
    await writeFile(join(source, 'CHANGELOG.md'), '## Unreleased\n\n## 1.2.3 (2026-01-01)\n')
    expect(await run(source, 'sh', 'release/publishable.sh')).toMatchObject({ status: 0 })
    await writeFile(join(source, 'CHANGELOG.md'), '')
    await writeFile(join(source, 'release/allowed_signers'), '')
    const { stderr } = await run(source, 'sh', 'release/publishable.sh', 'v1')
    expect(stderr.trimEnd().split('\n')).toHaveLength(3)
  })

  async function releasable(): Promise<string> {
    const source = await scratchDirectory()
    await mkdir(join(source, 'release'))
    await succeed(source, 'cp', join(ROOT, 'release/publishable.sh'), 'release')
    await writeReleasable(source)
    await writeFile(join(source, 'release/allowed_signers'), 'edge-release ssh-ed25519 x\n')
    return source
  }
})

/** Version 1.2.3, wherever a release has to name it. */
async function writeReleasable(source: string): Promise<void> {
  await mkdir(join(source, 'deploy/helm/edge'), { recursive: true })
  await writeFile(join(source, 'package.json'), '{ "version": "1.2.3" }')
  await writeFile(join(source, 'deploy/helm/edge/Chart.yaml'), 'version: 1.2.3\n')
  await writeFile(join(source, 'CHANGELOG.md'), '# Changelog\n\n## 1.2.3\n\n- new\n\n## 1.2.2\n\n- old\n')
}

async function pathOf(program: string): Promise<string> {
  return (await succeed('/', 'sh', '-c', `command -v ${program}`)).trim()
}
