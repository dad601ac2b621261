import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { ADMIN_ENV, askAdmin } from '../../support/admin/admin-client.ts'
import { publishing } from '../../support/admin/published-bundles.ts'
import { replaceFile } from '../../support/bundles/bundle-file.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { command } from '../../support/service/command.ts'
import { running, scratchDirectory } from '../../support/service/running.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { until } from '../../support/until.ts'

afterEach(() => {
  vi.unstubAllEnvs()
})

describe('a problem has its line and its column', () => {
  const LINES = [
    'bundle_version: 7',
    'policies:',
    '  - id: p',
    '    spec:',
    '      rules:',
    '        - name: r',
    '          limit_keys: []',
  ]
  const YAML = [...LINES, '          algorithm: token_bucket', '          algorithm_config: { rate: 10/minute, burts: 4 }', ''].join('\n')
  const RULE = 'policies[0].spec.rules[0]'

  test.each([
    ['', YAML],
    [', after a byte order mark', `\ufeff${YAML}`],
    [', with CR LF', YAML.replaceAll('\n', '\r\n')],
  ])('in YAML%s', async (_how, text) => {
    const file = await fileWith('limits.yaml', text)
    const said = `${file}:9:48: error: ${RULE}.algorithm_config: unknown field "burts": did you mean "burst"?\n`
    expect(await command('validate', file)).toEqual({ status: 1, stdout: '', stderr: said })
  })

  test('in YAML, where an anchor was written', async () => {
    const text = `bundle_version: 7\nmetadata:\n  usual: &usual { rate: often }\n${YAML.slice(YAML.indexOf('policies')).replace(/\{.*\}/, '*usual')}`
    const file = await fileWith('limits.yaml', text)
    expect((await command('validate', file)).stderr).toContain(`${file}:3:19: error: ${RULE}.algorithm_config.rate: expected a rate`)
  })

  test('in JSON, of everything that is wrong, and of what is missing that of what should have it', async () => {
    const text = '{\n\t"bundle_version": 7,\n\t"policies": [\n\t\t{ "id": "p" },\n\t\t{ "spec": { "rules": 7 }, "id": "p" }\n\t]\n}\n'
    const file = await fileWith('limits.json', text)
    const { stderr } = await command('validate', file)
    expect(stderr.split('\n').map((line) => line.slice(file.length).split(/(?<=: error: [^:]*):/)[0])).toEqual([
      ':4:3: error: policies[0].spec',
      ':5:15: error: policies[1].spec.rules',
      ':5:29: error: policies[1].id',
      '',
    ])
  })

  test('in JSON, of a name that comes twice and of what is not JSON', async () => {
    const twice = await fileWith('twice.json', '{"bundle_version": 7,\n "policies": [], "policies": []}')
    expect((await command('validate', twice)).stderr).toBe(
      `${twice}:2:18: error: "policies" occurs twice in one object, the second time at line 2, column 18\n`,
    )
  })

  test('in the log of the service, and in the API', async () => {
    const edge = await running({ bundle: bundle(1), env: ADMIN_ENV })
    await replaceFile(edge.bundlePath, '{\n "bundle_version": 2,\n "policies": [{ "id": "p", "spec": { "rules": [] }, "rules": [] }]\n}')
    await until(() => edge.logged('bundle_refused').length === 1)
    const sentence = 'policies[0]: unknown field "rules": it belongs in spec (line 3, column 53)'
    expect((await untilLogged(edge, 'bundle_refused'))[0]).toMatchObject({ problems: [sentence] })
    const { source } = (await askAdmin(edge.adminPort, 'GET', 'bundle')).json
    expect(source.refused.problems).toEqual([sentence])
  })

  test('so has a version that is not above the active one, and so have warnings of a bundle that is accepted', async () => {
    const edge = await running({
      bundle: bundle(7),
      env: { ...ADMIN_ENV, EDGE_MODE: 'reverse_proxy', EDGE_BACKEND_URL: 'http://127.0.0.1:9' },
    })
    await replaceFile(edge.bundlePath, '{\n "policies": [],\n\n   "bundle_version": "07" }')
    await until(() => edge.logged('bundle_refused').length === 1)
    expect(edge.logged('bundle_refused')[0]).toMatchObject({
      problems: [expect.stringMatching(/^bundle_version: expected a version above the active one \(7\), got 7\. .* \(line 4, column 4\)$/)],
    })
    const selector = '{\n "pathPrefix": "/a*", "hosts": ["h.example"] }'
    await replaceFile(
      edge.bundlePath,
      `{ "bundle_version": 8, "policies": [\n { "id": "p", "spec": { "selector": ${selector},\n "rules": [${JSON.stringify(bucketRule('r', [], 5))}] } }] }`,
    )
    await until(() => edge.logged('bundle_applied').length === 2)
    const warnings = edge.logged('bundle_warnings').at(-1)!['warnings'] as string[]
    expect(warnings.map((warning) => [warning.split(':')[0], /\(line .*\)$/.exec(warning)?.[0]])).toEqual([
      ['policies[0].spec.selector.pathPrefix', '(line 3, column 2)'],
      ['policies[0].spec.selector.hosts', '(line 3, column 23)'],
    ])
  })
})

test('edge validate prints errors and warnings in the order of the file', async () => {
  const file = await fileWith(
    'limits.yaml',
    'policies:\n  - id: p\n    x-note: warned of\n    spec: { rules: [], rulez: [] }\n  - id: p\n    spec: { rules: 7 }\nbundle_version: x\n',
  )
  const { stderr } = await command('validate', file)
  const places = stderr.split('\n').map((line) => line.slice(file.length).split(': ').slice(0, 2).join(': '))
  expect(places).toEqual([':3:5: warning', ':4:24: error', ':5:5: error', ':6:13: error', ':7:1: error', ''])
})

test('edge status shows all problems of a bundle, ten of them, and how many more there are', async () => {
  const edge = await publishing({}, bundle(1))
  const rules = (count: number): object[] => Array.from({ length: count }, (_, i) => ({ ...bucketRule(`r${i}`, [], 5), [`f${i}`]: 1 }))
  for (const [round, count] of [3, 25].entries()) {
    await replaceFile(edge.bundlePath, JSON.stringify(bundle(2, policy('p', { rules: rules(count) }))))
    await until(() => edge.logged('bundle_refused').length === round + 1)
    const { stdout } = await command('status')
    const named = Array.from({ length: count }, (_, i) => i).filter((i) => stdout.includes(`unknown field "f${i}"`))
    expect(named).toHaveLength(Math.min(count, 10))
    expect(stdout.split('unknown field "f0"')).toHaveLength(2)
    expect(stdout.includes('and 15 more: edge validate lists all')).toBe(count === 25)
  }
})

test.each(['bundle_version: 7\npolicies: []\n', '# limits\nbundle_version: 7\n', '%YAML 1.2\n---\npolicies: []\n'])(
  'YAML in a file whose name does not say so gets a hint: %j',
  async (text) => {
    const file = await fileWith('limits.txt', text)
    const { stderr } = await command('validate', file)
    expect(stderr).toBe(
      `${file}:1:1: error: not JSON: unexpected ${JSON.stringify(text[0])} at line 1, column 1 (is it YAML? That needs a name that ends in .yaml or .yml)\n`,
    )
    const broken = await fileWith('limits.json', '{ "bundle_version": 7 "policies": [] }')
    expect((await command('validate', broken)).stderr).not.toContain('YAML')
  },
)

async function fileWith(name: string, content: string): Promise<string> {
  const file = join(await scratchDirectory(), name)
  await writeFile(file, content)
  return file
}
