import { existsSync } from 'node:fs'
import { appendFile, mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { describeWith } from '../support/describe-with.ts'
import { describeWithRegistry, run, succeed } from '../support/packaging/npm.ts'
import { ROOT, sourceCopy } from '../support/packaging/source-copy.ts'
import { type Owner, scratchDirectory } from '../support/service/running.ts'
import { thisSuite } from '../support/service/suite-owner.ts'

const hasDebian = ['/usr/bin/buildah', '/usr/bin/dpkg-deb', '/usr/bin/mmdebstrap', '/usr/bin/ssh-keygen'].every((program) =>
  existsSync(program),
)

describeWithRegistry('a release', () => {
  describeWith(hasDebian ? undefined : 'it needs buildah, dpkg-deb, mmdebstrap and ssh-keygen', 'made in a clean checkout', () => {
    const suite = thisSuite()
    let [out, key]: [out: string, key: string] = [] as never
    let again: string
    beforeAll(async () => {
      const keys = await scratchDirectory(suite)
      key = join(keys, 'key')
      await succeed(keys, 'ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-C', 'release', '-f', key)
      await writeFile(join(keys, 'allowed_signers'), `edge-release namespaces="file" ${await readFile(`${key}.pub`, 'utf8')}`)
      const repository = await committed(suite, await readFile(join(keys, 'allowed_signers'), 'utf8'))
      ;[out, again] = await Promise.all([released(repository, suite, 'first', PLAIN, key), released(repository, suite, WORKED_IN, ODD)])
    }, 1_800_000)

    test('has all files, and their checksums', async () => {
      const { version } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8')) as { version: string }
      const architecture = (await succeed(ROOT, 'dpkg', '--print-architecture')).trim()
      const files = [
        `edge-${version}.cdx.json`,
        `edge-chart-${version}.tgz`,
        `edge-decision-service-${version}.tgz`,
        `edge-decision-service_${version}_${architecture}.deb`,
        `edge-image-${version}.tar`,
      ]
      expect((await readdir(out)).sort()).toEqual([...files, 'SHA256SUMS', 'SHA256SUMS.sig'].sort())
      expect((await readFile(join(out, 'SHA256SUMS'), 'utf8')).split('\n').slice(0, -1)).toHaveLength(files.length)
      await expect(verified(out)).resolves.toBe(0)
    })

    test('a changed file is refused, and so are a changed list and another key', async () => {
      const copy = await scratchDirectory()
      await succeed(copy, 'cp', '-r', `${out}/.`, copy)
      const name = (await readdir(copy)).find((each) => each.endsWith('.cdx.json'))!
      await appendFile(join(copy, name), ' ')
      expect((await run(copy, ...CHECK)).stdout).toContain(`${name}: FAILED`)
      await expect(verified(copy)).resolves.not.toBe(0)
      // Whoever changes the list as well does not have the key.
      await succeed(copy, 'sh', '-c', `sha256sum ${name} >SHA256SUMS`)
      expect((await run(copy, ...CHECK)).status).toBe(0)
      await expect(verified(copy)).resolves.not.toBe(0)
      await succeed(copy, 'ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-f', join(copy, 'other'))
      await succeed(copy, 'rm', 'SHA256SUMS.sig')
      await succeed(copy, 'ssh-keygen', '-q', '-Y', 'sign', '-f', join(copy, 'other'), '-n', 'file', 'SHA256SUMS')
      await expect(verified(copy)).resolves.not.toBe(0)
    })

    /** The exit status of what docs/verify.md tells users to do. */
    async function verified(folder: string): Promise<number> {
      const page = await readFile(join(ROOT, 'docs/verify.md'), 'utf8')
      const commands = /```sh\n(ssh-keygen -Y verify .*\nsha256sum .*)\n```/.exec(page)![1]!.replace('\n', ' && ')
      await succeed(folder, 'cp', join(key, '../allowed_signers'), folder)
      const { status } = await run(folder, 'sh', '-c', commands)
      await succeed(folder, 'rm', 'allowed_signers')
      return status
    }

    test('is the same from a second checkout, whatever the path, the umask, the time zone, the language, and what git ignores there', async () => {
      expect(await readFile(join(again, 'SHA256SUMS'), 'utf8')).toBe(await readFile(join(out, 'SHA256SUMS'), 'utf8'))
      expect((await readdir(again)).sort()).toEqual((await readdir(out)).filter((name) => name !== 'SHA256SUMS.sig').sort())
      expect(await readdir(join(again, '..'))).toEqual(['made'])
    })

    test('the archive of the image is one that others read', async () => {
      const folder = await scratchDirectory()
      await succeed(folder, 'sh', '-c', `cp '${out}'/edge-image-*.tar .`)
      const [archive] = (await readdir(folder)) as [string]
      const buildah = ['buildah', '--storage-driver', 'vfs', '--root', join(folder, 'storage'), '--runroot', join(folder, 'run')] as const
      const id = (await succeed(folder, ...buildah, 'pull', '--quiet', `oci-archive:${archive}`)).trim()
      const { OCIv1 } = JSON.parse(await succeed(folder, ...buildah, 'inspect', '--type', 'image', id)) as { OCIv1: object }
      expect(OCIv1).toMatchObject({ config: { User: '65532:65532', Cmd: ['serve'] } })
    })

    test('the list of contents names every package that was bundled, Node, what is in Node and in the image, and what made it', async () => {
      const name = (await readdir(out)).find((each) => each.endsWith('.cdx.json'))!
      const { components, dependencies, metadata } = JSON.parse(await readFile(join(out, name), 'utf8')) as Bom
      const notices = await readFile(join(ROOT, 'THIRD-PARTY-NOTICES'), 'utf8')
      const bundled = Array.from(notices.matchAll(/^(\S+) (\d\S+) \(.+\)$/gm), ([, name, version]) => `${name} ${version}`)
      const listed = components.map(({ name, version }) => `${name} ${version}`)
      expect(listed).toEqual(expect.arrayContaining([...bundled, expect.stringMatching(/^node 22\./)]))
      expect(bundled).toEqual(expect.arrayContaining([expect.stringMatching(/^preact /), expect.stringMatching(/^zod /)]))
      expect(metadata.tools.components.map(({ name, version }) => `${name} ${version}`)).toEqual(
        expect.arrayContaining([`node ${process.versions.node}`, ...['npm', 'dpkg', 'gzip', 'liblzma5'].map(versioned)]),
      )
      expect(components.find(({ name }) => name === 'node')!.components!.map(({ name }) => name)).toEqual(
        expect.arrayContaining(['openssl', 'v8', 'uv', 'zlib']),
      )
      expect(listed).toEqual(expect.arrayContaining([expect.stringMatching(/^libc6 2\./)]))
      const references = components.map((component) => component['bom-ref'])
      expect(new Set(references).size).toBe(references.length)
      expect(dependencies[0]!.dependsOn).toEqual(references)
    })
  })
})

interface Bom {
  readonly metadata: { readonly tools: { readonly components: readonly Component[] } }
  readonly components: readonly Component[]
  readonly dependencies: readonly { readonly dependsOn: readonly string[] }[]
}

interface Component {
  readonly 'bom-ref': string
  readonly name: string
  readonly version: string
  readonly components?: readonly Component[]
}

const CHECK = ['sha256sum', '--check', '--ignore-missing', 'SHA256SUMS'] as const

/** All commits of the tests are made at this time, by this author, so that they are the same commit. */
const COMMIT = ['GIT_AUTHOR_DATE=1700000000 +0000', 'GIT_COMMITTER_DATE=1700000000 +0000'] as const
const AUTHOR = ['-c', 'user.name=a', '-c', 'user.email=a@example.com', '-c', 'commit.gpgsign=false'] as const

/** What is around a build, and must not show in it. */
const PLAIN = { umask: '022', env: ['TZ=UTC', 'LC_ALL=C.UTF-8'] }
const ODD = { umask: '077', env: ['TZ=Pacific/Auckland', 'LC_ALL=POSIX', 'NODE_ENV=production'] }

/** What git ignores in a checkout in which somebody has worked: the program of an earlier build, and logs and profiles beside files that are packed. */
const IGNORED = ['program/edge.js', 'dist/index.js', 'examples/notes.log', 'docs/a.cpuprofile', 'deploy/helm/edge/dump.log']

/** The clone in which these are. */
const WORKED_IN = 'the second one'

function versioned(name: string): unknown {
  return expect.stringMatching(new RegExp(`^${name} \\d`))
}

/** Makes a release for this machine's architecture in a clone of its own, and returns its folder. */
async function released(repository: string, owner: Owner, name: string, { umask, env }: typeof PLAIN, ...key: string[]): Promise<string> {
  const folder = join(await scratchDirectory(owner), name)
  await mkdir(folder)
  const architecture = (await succeed(folder, 'dpkg', '--print-architecture')).trim()
  const settings = [`EDGE_RELEASE_ARCHITECTURES=${architecture}`, 'EDGE_DEB_COMPRESSION=gzip', `TMPDIR=${folder}`, ...env]
  const leave = name === WORKED_IN ? `for file in ${IGNORED.join(' ')}; do install -D -m 755 /dev/null source/$file; done;` : ''
  const commands = `umask ${umask}; git clone --quiet "$0" source || exit; ${leave} exec sh source/release/make.sh out/made "$@"`
  await succeed(folder, 'env', ...settings, 'sh', '-c', commands, repository, ...key)
  return join(folder, 'out/made')
}

/** A repository with what git would commit here, when it is about to be released. */
async function committed(owner: Owner, signers: string): Promise<string> {
  const source = await sourceCopy(owner)
  const { version } = JSON.parse(await readFile(join(source, 'package.json'), 'utf8')) as { version: string }
  await writeFile(join(source, 'CHANGELOG.md'), `# Changelog\n\n## ${version}\n`)
  await writeFile(join(source, 'release/allowed_signers'), signers)
  await succeed(source, 'git', 'init', '--quiet')
  await succeed(source, 'git', 'add', '--all')
  await succeed(source, 'env', ...COMMIT, 'git', ...AUTHOR, 'commit', '--quiet', '--message', 'all')
  return source
}
