import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { describeWithRegistry, run, succeed } from '../support/packaging/npm.ts'
import { emptyProject, ROOT, sourceCopy } from '../support/packaging/source-copy.ts'
import { ask } from '../support/service/http.ts'
import { serving, thisTest } from '../support/service/running.ts'
import { thisSuite } from '../support/service/suite-owner.ts'

describeWithRegistry('the tarball, installed into an empty project', () => {
  const suite = thisSuite()
  let project: string
  let packed: readonly string[]

  beforeAll(async () => {
    const source = await sourceCopy(suite)
    await symlink(join(ROOT, 'node_modules'), join(source, 'node_modules'))
    await mkdir(join(source, 'dist'))
    await writeFile(join(source, 'dist/of-a-deleted-module.js'), '')
    const [tarball] = JSON.parse(await succeed(source, 'npm', 'pack', '--json')) as [{ filename: string; files: { path: string }[] }]
    packed = tarball.files.map(({ path }) => path)
    project = await emptyProject(suite)
    await succeed(project, 'npm', 'install', join(source, tarball.filename))
  }, 600_000)

  test('has what the program needs and nothing that is left of an earlier build', () => {
    expect(packed).toEqual(
      expect.arrayContaining([
        'program/edge.js',
        'dist/index.d.ts',
        'schema/bundle.schema.json',
        'schema/cases.schema.json',
        'program/console/index.html',
        'program/console/console.js.gz',
        'README.md',
        'LICENSE',
        'THIRD-PARTY-NOTICES',
      ]),
    )
    expect(packed.filter((path) => path.startsWith('src/') || path.includes('.test.') || path.includes('deleted'))).toEqual([])
  })

  test('`edge` runs by its name', async () => {
    const { version } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8')) as { version: string }
    expect(await succeed(project, join(project, 'node_modules/.bin/edge'), '--version')).toBe(`${version}\n`)
    expect(await succeed(project, 'npx', '--no-install', 'edge', '--version')).toBe(`${version}\n`)
  })

  test('`edge serve` decides by an example that comes with it', async () => {
    const program = join(project, 'node_modules/.bin/edge')
    const bundle = join(project, 'node_modules/edge-decision-service/examples/quickstart.json')
    const edge = await serving({ EDGE_CONFIG_FILE: bundle, EDGE_WORKERS: '2' }, [], thisTest, { program })
    const fields = [
      ['X-Original-Method', 'GET'],
      ['X-Original-URI', '/api/hello'],
      ['X-Api-Key', 'alice'],
    ] as const
    const answer = await ask(edge.port, 'POST', '/v1/decision', fields)
    expect([answer.status, answer.headers['ratelimit-limit']]).toEqual([200, '5'])
    expect(await edge.stop()).toBe(0)
  })

  test('a program imports the engine and the schema', async () => {
    const program = `
      import { createEngine } from 'edge-decision-service'
      import schema from 'edge-decision-service/bundle.schema.json' with { type: 'json' }
      const engine = createEngine({ storeBytes: 1024 * 1024 })
      console.log(engine.decide({ method: 'GET', uri: '/' }).reason, typeof schema.properties.bundle_version)`
    expect(await succeed(project, process.execPath, '--no-warnings', '--input-type=module', '--eval', program)).toBe(
      'no_bundle_loaded object\n',
    )
  })

  test('TypeScript finds the types, and they are no `any`', async () => {
    const program = `
      import { createEngine, type Decision, type Reason } from 'edge-decision-service'
      const decision: Decision = createEngine({ storeBytes: 1024 * 1024 }).decide({ method: 'GET', uri: '/' })
      export const reason: Reason = decision.reason
      // @ts-expect-error: a request has a URI
      createEngine().decide({ method: 'GET' })
      // @ts-expect-error: there is no such reason
      export const none: Reason = 'of_no_kind'`
    await writeFile(join(project, 'program.ts'), program)
    const options = [
      '--noEmit',
      '--strict',
      '--skipLibCheck',
      'false',
      '--target',
      'es2022',
      '--module',
      'nodenext',
      '--moduleResolution',
      'nodenext',
    ]
    const compiler = join(ROOT, 'node_modules/typescript/bin/tsc')
    expect(await run(project, process.execPath, compiler, ...options, 'program.ts')).toEqual({ status: 0, stdout: '', stderr: '' })
  })
})
