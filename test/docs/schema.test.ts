import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { Ajv } from 'ajv'
import { load } from 'js-yaml'
import { expect, test } from 'vitest'
import { casesJsonSchema } from '../../src/offline/cases/case-schema.ts'
import { readCases } from '../../src/offline/cases/read-cases.ts'
import { parseBundle } from '../../src/policy/parse.ts'
import { bundleJsonSchema, formatOf } from '../../src/policy/schema/bundle.ts'
import { codeBlocks, markdownFiles, ROOT, readText } from './markdown.ts'

test.each([
  ['schema/bundle.schema.json', 'src/policy/schema/bundle.ts', bundleJsonSchema],
  ['schema/cases.schema.json', 'src/offline/cases/case-schema.ts', casesJsonSchema],
] as const)('%s is what the source says', (file, source, freshSchema) => {
  const written: unknown = JSON.parse(readText(file))
  // through JSON, where what is undefined is absent
  const fresh: unknown = JSON.parse(JSON.stringify(freshSchema()))
  expect(written, `${file} is behind ${source}: run \`npm run schema\``).toEqual(fresh)
})

/** The schema is written for editors: strict mode wants each type to be repeated, and no keywords beside others that they follow from. */
const OPTIONS = { allErrors: true, strict: false, formats: { 'date-time': true } } as const

interface Shown {
  readonly place: string
  readonly text: string
  readonly format: 'json' | 'yaml'
}

const shown: readonly Shown[] = [
  ...markdownFiles()
    .filter((file) => file === 'README.md' || file.startsWith('docs/') || file.startsWith('examples/'))
    .flatMap((file) =>
      (['yaml', 'json'] as const).flatMap((format) =>
        codeBlocks(readText(file), format).map((text, i) => ({ place: `${file}, ${format} ${i + 1}`, text, format })),
      ),
    ),
  ...readdirSync(join(ROOT, 'examples'), { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.(json|ya?ml)$/.test(name))
    .map((name) => ({ place: `examples/${name}`, text: readText(`examples/${name}`), format: formatOf(name) })),
]

test.each([
  ['bundle', 50, ({ text, format }: Shown) => parseBundle(text, format).ok],
  ['cases', 4, ({ text, format }: Shown) => format === 'yaml' && 'cases' in readCases(text)],
])('the JSON Schema of %s accepts what the pages and examples show', (name, least, isOne) => {
  const validate = new Ajv(OPTIONS).compile(JSON.parse(readText(`schema/${name}.schema.json`)) as object)
  const found = shown.filter(isOne)
  expect(found.length).toBeGreaterThanOrEqual(least)
  const refused = found.flatMap(({ place, text, format }) => {
    if (validate(format === 'yaml' ? load(text) : JSON.parse(text))) return []
    return [
      {
        place,
        errors: validate.errors!.map(({ instancePath, message, params }) => `${instancePath} ${message} ${JSON.stringify(params)}`),
      },
    ]
  })
  expect(refused).toEqual([])
})

test('the JSON Schema refuses what the service refuses: unknown fields, bad names, a price that is missing', () => {
  const validate = new Ajv(OPTIONS).compile(JSON.parse(readText('schema/bundle.schema.json')) as object)
  const price = { input: 1, output: 2 }
  const entry = { name: 'okta', issuer: 'https://i.example', audiences: ['*'], jwks_file: 'keys.json' }
  const bundleWith = (parts: object): object => ({ bundle_version: 1, policies: [], ...parts })
  const good: object[] = [
    { prices: { main: { '*': price, 'gpt-*': price, aliases: { a: 'b' } } } },
    { callers: { jwt: [{ ...entry, labels: { team: { claim: 'team' }, plan: { claim: 'plan', default: 'free' } } }] } },
  ]
  const bad = [
    { unknown: 1 },
    { prices: { main: { 'gpt-*': price } } },
    { prices: { main: { '*': price, 'a*b': price } } },
    { prices: { main: { '*': price, aliases: { a: 1 } } } },
    { callers: { jwt: [{ ...entry, labels: { id: { claim: 'team' } } }] } },
    { callers: { jwt: [{ ...entry, labels: { team: { claims: 'team' } } }] } },
  ]
  for (const parts of [...good, ...bad]) {
    const isGood = good.includes(parts)
    expect([validate(bundleWith(parts)), parts]).toEqual([isGood, parts])
    expect([parseBundle(JSON.stringify(bundleWith(parts))).ok, parts]).toEqual([isGood, parts])
  }
})
