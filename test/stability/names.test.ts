import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { API_ERRORS } from '../../src/admin/api/api-error.ts'
import { SETTING_GROUPS } from '../../src/config/settings.ts'
import { REASONS } from '../../src/engine/reasons.ts'
import * as library from '../../src/index.ts'
import { SETTLE_ERRORS } from '../../src/reservations/reservations.ts'
import { CATALOGUE } from '../../src/telemetry/metrics/catalogue.ts'
import { codeBlocks, codeWords, ROOT, readText, tableRows } from '../docs/markdown.ts'
import { type NamedSchema, schemaLines } from './schema-lines.ts'
import { changesOf, expectStable } from './stable-lines.ts'
import { typeLines } from './type-lines.ts'

test('metrics keep their names, types and labels', () => {
  expectStable(
    'metrics',
    Object.entries(CATALOGUE).map(([name, { type, labels }]) => [name, type, ...labels].join(' ')),
  )
})

test('reasons and error codes keep their names and statuses', () => {
  expectStable('reasons', [
    ...Object.entries(REASONS).map(([code, { status }]) => `decision ${code} ${status}`),
    ...Object.entries(SETTLE_ERRORS).map(([code, { status }]) => `settle ${code} ${status}`),
    ...Object.entries(API_ERRORS).map(([code, status]) => `admin ${code} ${status}`),
  ])
})

test('settings keep their variables, options and defaults', () => {
  expectStable(
    'settings',
    SETTING_GROUPS.flatMap(({ settings }) => Object.values(settings)).map(({ env, flag, fallback }) =>
      [env, flag && `--${flag}`, fallback && `(${fallback})`].filter(Boolean).join(' '),
    ),
  )
})

test('commands keep their names', () => {
  expectStable(
    'commands',
    [...readText('src/cli/command.ts').matchAll(/case '([a-z-]+)':/g)].map(([, name]) => name!),
  )
})

test('events keep their names', () => {
  const rows = tableRows(readText('docs/operations/logs.md'), ['Event', 'Level', 'What happened', 'Fields'])
  expectStable(
    'events',
    rows.flatMap(([event]) => codeWords(event!)),
  )
})

// That the page shows a line as it is written is tested there.
test('a line of the usage log keeps its members, their types, and the words that stand for something', () => {
  const page = readText('docs/usage.md')
  const rows = tableRows(page, ['Member', 'Meaning'])
  const members = rows.flatMap(([member]) => codeWords(member!))
  const words = (meaning: string): string[] => Array.from(meaning.matchAll(/`(\w+)`/g), ([, word]) => word!)
  expectStable('usage-lines', [
    ...memberLines(JSON.parse(codeBlocks(page, 'json')[0]!)),
    ...members,
    ...['end', 'usage', 'estimate'].flatMap((name) => {
      const [, meaning] = rows.find(([member]) => member === `\`${name}\``)!
      return words(meaning!).flatMap((word) => (members.includes(word) ? [] : `${name} = ${word}`))
    }),
  ])
})

/** `rules[].policy: string`, for every member of a value. Labels are those of a bundle. */
function memberLines(value: unknown, path = ''): string[] {
  if (Array.isArray(value)) return [...new Set(value.flatMap((each) => memberLines(each, `${path}[]`)))]
  if (value === null || typeof value !== 'object' || path === 'labels') return [`${path}: ${typeof value}`]
  return Object.entries(value).flatMap(([name, member]) => memberLines(member, path === '' ? name : `${path}.${name}`))
}

test('a bundle keeps its fields, and what may be in them', () => {
  expectStable('bundle', schemaLines(JSON.parse(readText('schema/bundle.schema.json')) as NamedSchema, ''))
})

test('the admin API keeps its endpoints and the members of requests and responses', () => {
  const { paths, components } = JSON.parse(readText('assets/openapi/admin.json')) as Description
  expectStable('admin-api', [
    ...Object.entries(paths).flatMap(([path, methods]) => Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`)),
    ...Object.entries(components.schemas).flatMap(([name, schema]) => schemaLines(schema, name)),
  ])
})

interface Description {
  readonly paths: Readonly<Record<string, Readonly<Record<string, unknown>>>>
  readonly components: { readonly schemas: Readonly<Record<string, NamedSchema>> }
}

test('gRPC keeps its methods, and messages the numbers and types of their fields', () => {
  const files = readdirSync(join(ROOT, 'assets/proto'))
  expectStable(
    'grpc',
    files.flatMap((file) => protoLines(readText(`assets/proto/${file}`)).map((line) => `${file} ${line}`)),
  )
})

/** `AttributeContext.Peer: Address address = 1`, and `Authorization: rpc Check(CheckRequest) returns (CheckResponse)`. */
function protoLines(text: string): string[] {
  const open: string[] = []
  const lines: string[] = []
  for (const line of text
    .replace(/\/\/.*$/gm, '')
    .split('\n')
    .map((each) => each.trim())) {
    const [, begun] = /^(?:message|service|enum|oneof) (\w+) \{$/.exec(line) ?? []
    if (begun !== undefined) open.push(begun)
    else if (line === '}') open.pop()
    else if (open.length > 0 && line !== '') lines.push(`${open.join('.')}: ${line.replace(/;$/, '')}`)
  }
  return lines
}

test('the library keeps the names that it exports', () => {
  const text = readText('src/index.ts')
  const lists = [...text.matchAll(/^export (type )?\{([^}]+)\}/gms)].flatMap(([, all, list]) =>
    list!.split(',').map((name) => (all === undefined ? name.trim() : `type ${name.trim()}`)),
  )
  const declared = [...text.matchAll(/^export (interface|function) (\w+)/gm)].map(([, kind, name]) =>
    kind === 'interface' ? `type ${name}` : name!,
  )
  expectStable('library', [...lists, ...declared])
  expect([...lists, ...declared].filter((name) => !name.startsWith('type ')).sort()).toEqual(Object.keys(library).sort())
})

// What a bundle may contain is in a list of its own, and reasons are, too.
test('the types that the library exports keep their members', () => {
  const lines = typeLines('dist/index.d.ts').filter((line) => !/^(?:Bundle|Reason): /.test(line))
  expect(lines).toEqual(expect.arrayContaining(['Decision: Allowed', 'PlainRequest.readonly method: string', 'Clock.nowMs(): number']))
  expectStable('library-types', lines)
})

test('what is gone is told from what is new', () => {
  expect(changesOf(['a counter x', 'b gauge'], ['b gauge', 'a counter x y', 'c', 'c'])).toEqual([['a counter x'], ['a counter x y', 'c']])
  const schema = {
    properties: { a: { enum: ['x'] }, b: { anyOf: [{ type: 'string' }, { type: 'array', items: { $ref: '#/s/T' } }] } },
    required: ['b'],
  }
  expect(schemaLines(schema, '')).toEqual(['a', 'a = "x"', 'b!', 'b: string', 'b[]: T'])
  expect(protoLines('message M {\n  // x = 1;\n  message N {\n    string s = 2; // y\n  }\n  N n = 1;\n}\n')).toEqual([
    'M.N: string s = 2',
    'M: N n = 1',
  ])
})
