import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { load } from 'js-yaml'
import { describe, expect, test } from 'vitest'
import { describeWith } from '../support/describe-with.ts'
import { type Finished, run, succeed } from '../support/packaging/npm.ts'
import { ROOT } from '../support/packaging/source-copy.ts'
import { scratchDirectory } from '../support/service/running.ts'
import { testPart } from '../support/test-part.ts'

const WORKFLOWS = join(ROOT, '.github/workflows')
const ACTIONLINT = testPart('actionlint')
const hasShellcheck = spawnSync('shellcheck', ['--version']).status === 0
const missing =
  existsSync(ACTIONLINT) && hasShellcheck ? undefined : 'actionlint or shellcheck missing: run sh scripts/install-test-parts.sh'

interface Step {
  readonly name?: string
  readonly run?: string
}

interface Workflow {
  readonly permissions: object
  readonly jobs: Readonly<
    Record<
      string,
      {
        readonly steps: readonly Step[]
        readonly needs?: string | readonly string[]
        readonly permissions?: object
        readonly strategy?: { matrix: object }
      }
    >
  >
}

describeWith(missing, 'workflows and shell scripts', () => {
  test('actionlint finds nothing in the workflows, nor shellcheck in their commands', async () => {
    for (const file of await readdir(WORKFLOWS)) expect(await lint(ROOT, join(WORKFLOWS, file))).toMatchObject({ status: 0, stdout: '' })
  })

  test.each([
    ['a misspelled key', 'timeout-minutes:', 'timeout-minute:', 'unexpected key "timeout-minute"'],
    ['a value of the matrix that does not exist', 'matrix.runner', 'matrix.machine', 'property "machine" is not defined'],
    ['a command that shellcheck warns of', 'run: npm test', 'run: cd $HOME', 'SC2086'],
  ])('%s would be found', async (_what, right, wrong, says) => {
    const directory = await scratchDirectory()
    await mkdir(join(directory, '.github/workflows'), { recursive: true })
    const file = join(directory, '.github/workflows/ci.yml')
    const text = await readFile(join(WORKFLOWS, 'ci.yml'), 'utf8')
    expect(text).toContain(right)
    await writeFile(file, text.replace(right, wrong))
    expect(await lint(directory, file)).toMatchObject({ status: 1, stdout: expect.stringContaining(says) })
  })

  test('shellcheck finds nothing in any script', async () => {
    const files = (await succeed(ROOT, 'git', 'ls-files', '-z', '--cached', '--others', '--exclude-standard'))
      .split('\0')
      .filter((file) => file !== '')
    const scripts: string[] = []
    for (const file of files) {
      const isCandidate = file.endsWith('.sh') || !/\.\w+$/.test(file)
      if (isCandidate && existsSync(join(ROOT, file)) && /^#!.*\b(?:ba)?sh\n/.test(await readFile(join(ROOT, file), 'utf8')))
        scripts.push(file)
    }
    expect(scripts).toEqual(expect.arrayContaining(['.ci/run', 'scripts/install-test-parts.sh', 'scripts/test-parts/helm.sh']))
    expect(await run(ROOT, 'shellcheck', ...scripts)).toMatchObject({ status: 0, stdout: '' })
  })
})

describe('workflows', () => {
  test('name every action by its commit, with the version beside it, and each by one commit only', async () => {
    const uses = (await workflows()).flatMap(([, text]) => text.match(/uses: .*/g) ?? [])
    expect(uses.length).toBeGreaterThan(0)
    expect(uses.filter((each) => !/^uses: [\w-]+\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/.test(each))).toEqual([])
    const actions = [...new Set(uses)].map((each) => each.split('@')[0])
    expect(new Set(actions).size).toBe(actions.length)
  })

  test('may only read, but for the jobs that publish, which run nothing of the repository', async () => {
    for (const [name, text] of await workflows()) {
      const { permissions, jobs } = load(text) as Workflow
      expect(permissions).toEqual({ contents: 'read' })
      const more = Object.entries(jobs).filter(([, job]) => job.permissions !== undefined)
      expect(more.map(([job]) => job)).toEqual(['release.yml', 'site.yml'].includes(name) ? ['publish'] : [])
      for (const [, { steps }] of more) expect(JSON.stringify(steps)).not.toMatch(/checkout|npm|release\/make/)
    }
  })

  test('publish the site that is built by the same command as everybody builds it, and no other folder', async () => {
    const { jobs } = load(await readFile(join(WORKFLOWS, 'site.yml'), 'utf8')) as Workflow
    expect(jobs['build']!.steps).toMatchObject([{}, { run: 'npm run site' }, { with: { path: 'site/dist' } }])
    expect(jobs['publish']).toMatchObject({ needs: 'build', permissions: { pages: 'write', 'id-token': 'write' } })
  })

  test('run the tests on every supported version of Node and on both architectures', async () => {
    const { jobs } = load(await readFile(join(WORKFLOWS, 'ci.yml'), 'utf8')) as Workflow
    expect(jobs['test']!.strategy!.matrix).toMatchObject({ node: [20, 22, 24], architecture: ['amd64', 'arm64'] })
  })

  test('release only what may be published by its tag, and only after it has been started on both architectures', async () => {
    const { jobs } = load(await readFile(join(WORKFLOWS, 'release.yml'), 'utf8')) as Workflow
    const commands = jobs['make']!.steps.flatMap(({ run: script }) => script ?? [])
    expect(commands).toContain('sh release/publishable.sh "$GITHUB_REF_NAME"')
    expect(jobs['publish']).toMatchObject({ needs: ['make', 'start', 'dockerfile'] })
    expect(jobs['start']!.strategy!.matrix).toMatchObject({ include: [{ architecture: 'amd64' }, { architecture: 'arm64' }] })
  })

  test('sign with the key that users know, or publish nothing', async () => {
    const { jobs } = load(await readFile(join(WORKFLOWS, 'release.yml'), 'utf8')) as Workflow
    const { run: script } = jobs['publish']!.steps.find(({ name }) => name === 'Sign the checksums')!
    const directory = await scratchDirectory()
    for (const folder of ['out', 'signers']) await mkdir(join(directory, folder))
    await writeFile(join(directory, 'out/SHA256SUMS'), 'sums\n')
    for (const name of ['known', 'other']) await succeed(directory, 'ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-f', name)
    await writeFile(join(directory, 'signers/allowed_signers'), `edge-release ${await readFile(join(directory, 'known.pub'), 'utf8')}`)
    const sign = async (name: string): Promise<Finished> => {
      const variables = [`RUNNER_TEMP=${directory}`, `KEY=${name === '' ? '' : (await readFile(join(directory, name), 'utf8')).trimEnd()}`]
      await succeed(directory, 'rm', '-f', 'out/SHA256SUMS.sig')
      return run(directory, 'env', ...variables, 'bash', '-e', '-c', script!)
    }
    expect(await sign('known')).toMatchObject({ status: 0, stdout: expect.stringContaining('Good "file" signature') })
    expect((await sign('other')).status).not.toBe(0)
    expect(await sign('')).toMatchObject({ status: 1, stdout: expect.stringContaining('has no secret RELEASE_SIGNING_KEY') })
  })

  test('that start containers of their own begin with groups in which limits can be set, and have the history for upgrades', async () => {
    for (const [file, job] of [
      ['ci.yml', 'full'],
      ['night.yml', 'chance'],
    ] as const) {
      const { steps } = (load(await readFile(join(WORKFLOWS, file), 'utf8')) as Workflow).jobs[job]!
      expect(steps[0]).toMatchObject({ with: { 'fetch-depth': 0 } })
      expect(steps.at(-1)!.run).toMatch(/^sh scripts\/delegate-cgroup\.sh && (?:\.ci\/run|npm run test:full)$/)
    }
  })

  test('scripts/delegate-cgroup.sh moves every process below, then lets limits be set; with version 1 it does nothing', async () => {
    const group = await scratchDirectory()
    const script = join(ROOT, 'scripts/delegate-cgroup.sh')
    expect(await run(group, 'sh', script, group)).toEqual({ status: 0, stdout: '', stderr: '' })
    expect(await readdir(group)).toEqual([])
    await writeFile(join(group, 'cgroup.controllers'), 'cpuset cpu memory\n')
    await writeFile(join(group, 'cgroup.procs'), '1\n17\n')
    expect(await run(group, 'sh', script, group)).toEqual({ status: 0, stdout: '', stderr: '' })
    expect(await readFile(join(group, 'init/cgroup.procs'), 'utf8')).toBe('1\n17\n')
    expect(await readFile(join(group, 'cgroup.subtree_control'), 'utf8')).toBe('+cpuset +cpu +memory\n')
  })

  test.each([
    ['v1.2.3', []],
    ['v1.2.3-rc.1', ['--prerelease']],
  ])('publish %s with %j, and with all files', async (tag, more) => {
    const { jobs } = load(await readFile(join(WORKFLOWS, 'release.yml'), 'utf8')) as Workflow
    const { run: script } = jobs['publish']!.steps.find(({ name }) => name === 'Publish')!
    const directory = await scratchDirectory()
    for (const folder of ['out', 'signers']) await mkdir(join(directory, folder))
    await writeFile(join(directory, 'signers/verified'), 'key SHA256:abc\n')
    for (const name of ['SHA256SUMS', 'SHA256SUMS.sig']) await writeFile(join(directory, 'out', name), '')
    const variables = `GITHUB_REF_NAME=${tag} GITHUB_REPOSITORY=owner/repository`
    const gh = `${variables}; gh() { printf '%s\\n' "$@"; }; ${script}`
    const args = (await succeed(directory, 'bash', '-e', '-c', gh)).trimEnd().split('\n')
    expect(args.slice(0, 3)).toEqual(['release', 'create', tag])
    expect(args.filter((arg) => arg === '--prerelease')).toEqual(more)
    expect(args.find((arg) => arg.startsWith('CHANGELOG'))).toMatch(/: key SHA256:abc$/)
    expect(args.slice(-2)).toEqual(['out/SHA256SUMS', 'out/SHA256SUMS.sig'])
  })
})

/** Name and text of each. */
async function workflows(): Promise<[name: string, text: string][]> {
  const names = await readdir(WORKFLOWS)
  return Promise.all(names.map(async (name): Promise<[string, string]> => [name, await readFile(join(WORKFLOWS, name), 'utf8')]))
}

function lint(directory: string, file: string): Promise<Finished> {
  return run(directory, ACTIONLINT, '-no-color', '-shellcheck', 'shellcheck', file)
}
