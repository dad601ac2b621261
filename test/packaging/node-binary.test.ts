import { createHash } from 'node:crypto'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { load } from 'js-yaml'
import { describe, expect, test } from 'vitest'
import { readText } from '../docs/markdown.ts'
import { servingFiles } from '../support/packaging/built-site.ts'
import { type Finished, run, succeed } from '../support/packaging/npm.ts'
import { ROOT } from '../support/packaging/source-copy.ts'
import { scratchDirectory, thisTest } from '../support/service/running.ts'

const VERSION = /^version=(.*)$/m.exec(readText('release/node-binary.sh'))![1]!
/** What Node calls the architectures of Debian. */
const NAMES = { amd64: 'linux-x64', arm64: 'linux-arm64' } as const
type Architecture = keyof typeof NAMES

/** The folder of a version, as Node publishes it: archives with these files as their binaries, and the checksums. */
async function published(binaries: Readonly<Partial<Record<Architecture, string>>>): Promise<{ folder: string; url: string }> {
  const folder = await scratchDirectory()
  let sums = ''
  for (const [architecture, binary] of Object.entries(binaries)) {
    const name = `node-v${VERSION}-${NAMES[architecture as Architecture]}`
    await mkdir(join(folder, name, 'bin'), { recursive: true })
    await succeed(folder, 'cp', binary, join(name, 'bin/node'))
    await succeed(folder, 'tar', '-czf', `${name}.tar.gz`, name)
    sums += `${sha256(await readFile(join(folder, `${name}.tar.gz`)))}  ${name}.tar.gz\n`
  }
  await writeFile(join(folder, 'SHASUMS256.txt'), `${'0'.repeat(64)}  node-v${VERSION}-headers.tar.gz\n${sums}`)
  return { folder, url: await servingFiles(folder, thisTest) }
}

async function compared(url: string, ...binaries: string[]): Promise<Finished> {
  return run(await scratchDirectory(), process.execPath, join(ROOT, 'release/published-node.mjs'), url, ...binaries)
}

async function binaryOf(text: string): Promise<string> {
  const file = join(await scratchDirectory(), 'a node')
  await writeFile(file, text)
  return file
}

describe('release/published-node.mjs', () => {
  const archive = `node-v${VERSION}-linux-arm64.tar.gz`

  test('accepts the binaries that Node publishes', async () => {
    const [x64, arm64] = [await binaryOf('for x64'), await binaryOf('for arm64')]
    const { url } = await published({ amd64: x64, arm64 })
    const { status, stdout } = await compared(url, `amd64=${x64}`, `arm64=${arm64}`)
    expect([status, stdout]).toEqual([0, expect.stringContaining(`${arm64} is the one in ${archive}\n`)])
    expect(await compared(url, `amd64=${arm64}`)).toMatchObject({
      status: 1,
      stderr: expect.stringMatching(/its SHA-256 is .*, but in node-v/),
    })
  })

  test('refuses another binary, and an archive that is not the one of the list', async () => {
    const { folder, url } = await published({ arm64: await binaryOf('theirs') })
    const ours = `arm64=${await binaryOf('ours')}`
    expect(await compared(url, ours)).toMatchObject({ status: 1, stderr: expect.stringContaining(`, but in ${archive} it is `) })
    await writeFile(join(folder, archive), 'changed')
    expect(await compared(url, ours)).toMatchObject({
      status: 1,
      stderr: `${archive}: its SHA-256 is ${sha256('changed')}, but in SHASUMS256.txt it is ${await listed(folder)}\n`,
    })
  })

  test.each([
    ['a version that is not published', 'arm64', '/none', /SHASUMS256\.txt: status 404\n$/],
    ['an architecture that is not in the list', 'amd64', '', /^SHASUMS256\.txt names no archive for linux-x64\n$/],
    ['an architecture of which there is no image', 'riscv64', '', /^riscv64: expected amd64 or arm64\n$/],
  ])('%s: a sentence, and 1', async (_what, architecture, path, sentence) => {
    const binary = await binaryOf('node')
    const { url } = await published({ arm64: binary })
    expect(await compared(url + path, `${architecture}=${binary}`)).toEqual({
      status: 1,
      stdout: '',
      stderr: expect.stringMatching(sentence),
    })
  })

  test('wants binaries', async () => {
    expect(await compared('http://127.0.0.1:9')).toMatchObject({ status: 1, stderr: expect.stringMatching(/^Usage: /) })
  })
})

interface Workflow {
  readonly jobs: { readonly make: { readonly steps: readonly { readonly name?: string; readonly run?: string }[] } }
}

test('the release workflow compares the binaries of both architectures before it makes a release', async () => {
  const { steps } = (load(readText('.github/workflows/release.yml')) as Workflow).jobs.make
  const step = steps.findIndex(({ name }) => name === 'Node is the one that its makers publish')
  expect(steps.findIndex(({ run }) => run?.startsWith('sh release/make.sh'))).toBeGreaterThan(step)
  // A checkout whose binaries are small; tests of the image and of the Debian package fetch the real ones.
  const checkout = await scratchDirectory()
  await mkdir(join(checkout, 'release'))
  await succeed(checkout, 'cp', join(ROOT, 'release/published-node.mjs'), 'release')
  await writeFile(join(checkout, 'release/node-binary.sh'), `version=${VERSION}\nmkdir "$2" && echo "for $1" >"$2/node"\n`)
  const binaries = { amd64: await binaryOf('for amd64\n'), arm64: await binaryOf('for arm64\n') }
  const { folder, url } = await published(binaries)
  await mkdir(join(folder, 'dist'))
  await succeed(folder, 'sh', '-c', `mkdir dist/v${VERSION} && mv *.gz SHASUMS256.txt dist/v${VERSION}`)
  const script = steps[step]!.run!.replace('https://nodejs.org', url)
  expect(script).toContain(url)
  const { status, stdout } = await run(checkout, 'env', `RUNNER_TEMP=${checkout}`, 'bash', '-e', '-o', 'pipefail', '-c', script)
  expect([status, stdout]).toEqual([0, expect.stringMatching(/amd64\/node is the one in .*x64.*\n.*arm64\/node is the one in .*arm64/)])
})

async function listed(folder: string): Promise<string> {
  return / ?([0-9a-f]{64}) {2}\S+arm64/.exec(await readFile(join(folder, 'SHASUMS256.txt'), 'utf8'))![1]!
}

function sha256(bytes: string | Buffer): string {
  return createHash('sha256').update(bytes).digest('hex')
}
