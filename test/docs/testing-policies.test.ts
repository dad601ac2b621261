import { readdirSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { load } from 'js-yaml'
import { expect, test } from 'vitest'
import { readCases } from '../../src/offline/cases/read-cases.ts'
import { matches, type Schema } from '../support/bundles/json-schema.ts'
import { command } from '../support/service/command.ts'
import { scratchDirectory } from '../support/service/running.ts'
import { codeBlocks, ROOT, readText } from './markdown.ts'

const [CASES_SECTION] = readText('docs/testing-policies.md').split(/^## (?!Cases)/m) as [string]
const [BUNDLE, CASES, TOKENS, SETTLED] = codeBlocks(CASES_SECTION, 'yaml') as [string, string, string, string]

test("the page's cases print what the page shows", async () => {
  const directory = await scratchDirectory()
  await writeFile(join(directory, 'limits.yaml'), BUNDLE)
  await writeFile(join(directory, 'limits.cases.yaml'), CASES)
  const [shown] = codeBlocks(CASES_SECTION, 'sh') as [string]
  const [, name, ...files] = shown.trim().split(' ') as [string, string, ...string[]]
  const { status, stdout } = await command(name, ...files.map((file) => join(directory, file)))
  expect(status).toBe(1)
  expect(stdout.replaceAll(`${directory}/`, '')).toBe(codeBlocks(CASES_SECTION, 'text')[0])
})

test("the page's case of a usage is that of an example", async () => {
  const path = join(await scratchDirectory(), 'settled.cases.yaml')
  await writeFile(path, SETTLED)
  expect(await command('test', '--mode', 'reverse_proxy', join(ROOT, 'examples/llm-budget.json'), path)).toMatchObject({ status: 0 })
})

test("the page's case of a token is that of an example", async () => {
  const path = join(await scratchDirectory(), 'tokens.cases.yaml')
  await writeFile(path, TOKENS)
  expect(await command('test', join(ROOT, 'examples/tenants.yaml'), path)).toMatchObject({ status: 0 })
})

test('the page lists the fields of a case, and no other', () => {
  const schema = JSON.parse(readText('schema/cases.schema.json'))
  const { steps, ...own } = schema.items.properties
  const { expect: expected, ...step } = steps.items.properties
  const known = [...Object.keys(own), 'steps', ...Object.keys(step).map((name) => `steps[].${name}`), 'steps[].expect']
  known.push(...Object.keys(expected.properties).map((name) => `expect.${name}`))
  const table = CASES_SECTION.slice(CASES_SECTION.indexOf('| Field | Meaning |'))
  const listed = table
    .split('\n')
    .slice(2)
    .filter((line) => line.startsWith('| `'))
    .flatMap((line) => [...line.split('|')[1]!.matchAll(/`([^`]+)`/g)].map((match) => match[1]!))
  expect(listed.slice(0, known.length).sort()).toEqual(known.sort())
})

test('the JSON Schema accepts the cases of the page and of the examples, and refuses unknown fields everywhere', () => {
  const schema = JSON.parse(readText('schema/cases.schema.json')) as Schema
  const files = EXAMPLES.map(([file]) => readText(`examples/${file.replace(/\.\w+$/, '.cases.yaml')}`))
  for (const text of [CASES, TOKENS, SETTLED, ...files]) expect(matches(schema, load(text))).toBe(true)
  const spoilt = [
    SETTLED.replace('- name:', '- x: 1\n  name:'),
    SETTLED.replace('- request:', '- x: 1\n      request:'),
    SETTLED.replace('uri:', 'x: 1\n        uri:'),
    SETTLED.replace('usage: {', 'usage: { x: 1,'),
    SETTLED.replace('expect: {', 'expect: { x: 1,'),
  ]
  for (const text of spoilt) expect(matches(schema, load(text)), text).toBe(false)
})

/** With the mode that its cases need. */
const EXAMPLES: readonly (readonly [string, readonly string[]])[] = [
  ['quickstart.json', []],
  ['tenants.yaml', []],
  ['llm-budget.json', ['--mode', 'reverse_proxy']],
  ['fleet/limits.yaml', []],
]

test.each(EXAMPLES)('the cases of examples/%s hold', async (file, flags) => {
  const path = join(ROOT, 'examples', file)
  const cases = path.replace(/\.\w+$/, '.cases.yaml')
  const { status, stdout, stderr } = await command('test', ...flags, path, cases)
  expect({ status, said: status === 0 ? stderr : stdout }).toEqual({ status: 0, said: '' })
  // The command that stands in the file itself.
  expect(readText(`examples/${file.replace(/\.\w+$/, '.cases.yaml')}`)).toContain(
    `# edge test ${[...flags, ''].join(' ')}examples/${file} `,
  )
  expect('cases' in readCases(readText(`examples/${file.replace(/\.\w+$/, '.cases.yaml')}`))).toBe(true)
})

test('every bundle in examples/ has cases, but those of the rate limit service', () => {
  const names = readdirSync(join(ROOT, 'examples'), { recursive: true, encoding: 'utf8' })
  const bundles = names.filter(
    (name) => /\.(?:json|ya?ml)$/.test(name) && !name.endsWith('.cases.yaml') && readText(`examples/${name}`).includes('bundle_version'),
  )
  expect(bundles.filter((name) => !readText(`examples/${name}`).includes('domain:')).sort()).toEqual(EXAMPLES.map(([file]) => file).sort())
})
