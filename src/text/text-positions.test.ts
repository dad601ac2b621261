import fc from 'fast-check'
import { dump } from 'js-yaml'
import { describe, expect, test } from 'vitest'
import { anyText } from '../../test/support/random/texts.ts'
import { DocumentNodes } from './document-nodes.ts'
import { formatPath, type Path, parsePath } from './problem.ts'
import { positionsOf } from './text-positions.ts'

function placeOf(text: string, format: 'json' | 'yaml', path: Path): string {
  const [{ line, column }] = positionsOf(text, format, [path]) as [{ line: number; column: number }]
  return `${line}:${column}`
}

const YAML = `# limits
bundle_version: 7
policies:
  - id: a
    spec:
      rules: &rules
        - { name: r, "quoted": [1, two] }
        - name: |
            long
          'single': x
  - id: b
    spec: { rules: *rules }
empty:
last: 1
`

describe('a place in YAML', () => {
  test.each<[string, Path, string]>([
    ['a member is at its key', ['policies'], '3:1'],
    ['an item is where it begins', ['policies', 0], '4:5'],
    ['a member of an item', ['policies', 0, 'spec', 'rules', 1, 'name'], '8:11'],
    ['a quoted key is at its quote', ['policies', 0, 'spec', 'rules', 0, 'quoted'], '7:22'],
    ['a key in single quotes', ['policies', 0, 'spec', 'rules', 1, 'single'], '10:11'],
    ['an item of a list in brackets', ['policies', 0, 'spec', 'rules', 0, 'quoted', 1], '7:36'],
    ['what an alias stands for is where it is written', ['policies', 1, 'spec', 'rules', 0, 'name'], '7:13'],
    ['the alias itself is at its key', ['policies', 1, 'spec', 'rules'], '12:13'],
    ['what is missing is at what should have it', ['policies', 1, 'spec', 'mode'], '12:5'],
    ['an item that is missing', ['policies', 9, 'id'], '3:1'],
    ['what is missing in an empty value', ['empty', 'x'], '13:1'],
    ['what comes behind an empty value', ['last'], '14:1'],
    ['the document itself', [], '2:1'],
  ])('%s', (_what, path, expected) => {
    expect(placeOf(YAML, 'yaml', path)).toBe(expected)
  })

  test('a list in itself, an alias that comes again under another value, and keys that are lists', () => {
    expect(placeOf('a: &a [1, *a]\n', 'yaml', ['a', 1, 1, 1, 0])).toBe('1:8')
    expect(placeOf('a: &x { p: 1 }\nb: &x { q: 1 }\nc: *x\n', 'yaml', ['c', 'q'])).toBe('2:9')
    expect(placeOf('? [k]\n: v\nb: { c: 1 }\n', 'yaml', ['b', 'c'])).toBe('3:6')
  })
})

describe('a place in JSON', () => {
  test.each<[string, string, Path, string]>([
    ['members and items', '{\n  "a": [1, {"b": true}],\n\t"c": null\n}', ['a', 1, 'b'], '2:13'],
    ['a tab is one column', '{\n  "a": [1, {"b": true}],\n\t"c": null\n}', ['c'], '3:2'],
    ['a key that is escaped', '{"x": 1, "\\u0061\\"]": [-1.5e3, 7]}', ['a"]', 1], '1:32'],
    ['a string that looks like JSON', '{"a": "}{][,:\\"", "b": 1}', ['b'], '1:19'],
    ['what is missing', '[{"a": {}}]', [0, 'a', 'b', 'c'], '1:3'],
    ['a name for an item', '[1]', ['x'], '1:1'],
    ['a value alone', ' 17 ', ['x'], '1:2'],
  ])('%s', (_what, text, path, expected) => {
    expect(placeOf(text, 'json', path)).toBe(expected)
  })

  test.each([
    ['LF', '\n'],
    ['CR LF', '\r\n'],
    ['CR', '\r'],
  ])('lines that end with %s', (_what, end) => {
    expect(placeOf(['{', '', ' "a": 1,', ' "b": 2', '}'].join(end), 'json', ['b'])).toBe('4:2')
    expect(placeOf(['a: 1', '# ä', 'b:', ' c: 2', ''].join(end), 'yaml', ['b', 'c'])).toBe('4:2')
  })
})

test('every value of any document is found where its key or its text is, whichever way it is written', () => {
  const value = fc.object({ key: anyText, maxDepth: 3, values: [anyText, fc.integer(), fc.boolean(), fc.constant(null)] })
  fc.assert(
    fc.property(value, fc.constantFrom(0, 2), fc.boolean(), (object, indent, isFlow) => {
      const document = JSON.parse(JSON.stringify(object)) as Record<string, unknown>
      const paths = [...pathsIn(document)]
      const json = JSON.stringify(document, null, indent)
      for (const [i, { line, column }] of positionsOf(json, 'json', paths).entries()) {
        const at = offsetOf(json, line, column)
        const step = paths[i]!.at(-1)!
        if (typeof step === 'string') expect(json.startsWith(`${JSON.stringify(step)}:`, at)).toBe(true)
      }
      const yaml = dump(document, { flowLevel: isFlow ? 0 : -1 })
      const nodes = new DocumentNodes(yaml, 'yaml')
      for (const [i, { line, column }] of positionsOf(yaml, 'yaml', paths).entries()) {
        const at = offsetOf(yaml, line, column)
        const texts = nodes.nodes.flatMap(({ kind, start }, node) => (kind === 'scalar' && start === at ? [nodes.scalarText(node)] : []))
        const step = paths[i]!.at(-1)!
        if (typeof step === 'string') expect(texts).toContain(step)
      }
    }),
  )
})

test('in a document of too many values, what is wrong far behind is at what contains it', () => {
  const json = `{"a":\n[${'7,'.repeat(99)}0], "b": 1}`
  const yaml = `a:\n${'- 7\n'.repeat(100)}b: 1\n`
  const paths = [['a', 90], ['a', 10], ['b']]
  const placed = (format: 'json' | 'yaml', text: string): string[] =>
    positionsOf(text, format, paths, 50).map(({ line, column }) => `${line}:${column}`)
  expect(placed('json', json)).toEqual(['1:2', '2:22', '1:1'])
  expect(placed('yaml', yaml)).toEqual(['1:1', '12:3', '1:1'])
})

test('a path is read as it was written', () => {
  const step = fc.oneof(anyText, fc.nat(1000), fc.constantFrom('a.b', '["x"]', '', '0', '__proto__', 'a b'))
  fc.assert(
    fc.property(fc.array(step), (path) => {
      expect(parsePath(formatPath(path))).toEqual(path)
    }),
  )
})

function* pathsIn(value: unknown, path: (string | number)[] = []): Generator<(string | number)[]> {
  if (path.length > 0) yield path
  if (typeof value !== 'object' || value === null) return
  for (const [name, member] of Object.entries(value)) yield* pathsIn(member, [...path, Array.isArray(value) ? Number(name) : name])
}

function offsetOf(text: string, line: number, column: number): number {
  const lines = text.split(/\r\n|\r|\n/)
  let offset = 0
  for (let i = 1; i < line; i++) offset += lines[i - 1]!.length + (text.startsWith('\r\n', offset + lines[i - 1]!.length) ? 2 : 1)
  return offset + column - 1
}
