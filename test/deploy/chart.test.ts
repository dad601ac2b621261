import { load, YAML11_SCHEMA } from 'js-yaml'
import { expect, test } from 'vitest'
import { SETTINGS } from '../../src/config/settings.ts'
import { codeWords, readText, tableRows } from '../docs/markdown.ts'
import { PROMETHEUS, RULE_FILES } from '../support/prometheus/deployed.ts'

const CHART = 'deploy/helm/edge'
const VALUES = load(readText(`${CHART}/values.yaml`), { schema: YAML11_SCHEMA }) as Tree
const SCHEMA = JSON.parse(readText(`${CHART}/values.schema.json`)) as { properties: Record<string, { properties: object }> }

type Tree = { readonly [name: string]: unknown }

// Helm cannot read files outside of a chart.
test.each(RULE_FILES)('the chart has the same %s as deploy/prometheus: copy it after a change', (file) => {
  expect(readText(`${CHART}/rules/${file}`)).toBe(readText(`${PROMETHEUS}/${file}`))
})

test('the chart has the version of the program', () => {
  const { version } = JSON.parse(readText('package.json')) as { version: string }
  expect(load(readText(`${CHART}/Chart.yaml`))).toMatchObject({ version, appVersion: version })
})

test('every setting has one place in the values: settings, secrets, or a value that the templates set it by', () => {
  const inSettings = Object.keys(SCHEMA.properties['settings']!.properties)
  const inSecrets = Object.keys(SCHEMA.properties['secrets']!.properties)
  const inTemplates = Array.from(readText(`${CHART}/templates/_environment.tpl`).matchAll(/"(EDGE_[A-Z_]+)"/g), ([, name]) => name!)
  const places = [...new Set([...inSettings, ...inSecrets, ...inTemplates])].sort()
  expect(places).toEqual(
    Object.values(SETTINGS)
      .map(({ env }) => env)
      .sort(),
  )
  expect(inSettings.filter((name) => inTemplates.includes(name))).toEqual([])
  // Both are URLs that may contain a secret.
  expect(inSecrets.filter((name) => inTemplates.includes(name) || inSettings.includes(name)).sort()).toEqual([
    'EDGE_CONFIG_URL',
    'EDGE_EVENTS_URL',
  ])
})

test('what has no option, because it is secret, is given by the name of a Secret alone', () => {
  const secret = Object.values<{ env: string; flag?: string }>(SETTINGS).flatMap(({ env, flag }) => (flag === undefined ? env : []))
  expect(Object.keys(SCHEMA.properties['secrets']!.properties)).toEqual(expect.arrayContaining(secret))
})

test('the page of the chart lists every value with its default', () => {
  const rows = tableRows(readText(`${CHART}/README.md`), ['Value', 'Default', 'Meaning'])
  const listed = rows.map(([value, fallback]) => [codeWords(value!)[0]!, load(fallback!.slice(1, -1), { schema: YAML11_SCHEMA })] as const)
  const names = new Set(listed.map(([name]) => name))
  expect(listed).toEqual(leavesOf(VALUES, names))
})

/** Values by their paths, down to those that the page lists as a whole. */
function leavesOf(tree: Tree, listed: ReadonlySet<string>, prefix = ''): (readonly [path: string, value: unknown])[] {
  return Object.entries(tree).flatMap(([name, value]) => {
    const path = `${prefix}${name}`
    const isBranch = value !== null && typeof value === 'object' && !Array.isArray(value) && !listed.has(path)
    return isBranch ? leavesOf(value as Tree, listed, `${path}.`) : [[path, value] as const]
  })
}
