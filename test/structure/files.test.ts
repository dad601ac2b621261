import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { ROOT, sourceFiles } from './source-imports.ts'

const MAX_LINES = 400
const MAX_FILES_OF_FOLDER = 20
const MAX_FILES_PER_1000_LINES = 9
const ENTRANCES = ['index.ts']

const texts = new Map(sourceFiles().map((file) => [file, readFileSync(join(ROOT, 'src', file), 'utf8')]))

test(`no file of src has more than ${MAX_LINES} lines`, () => {
  expect([...texts].filter(([, text]) => linesOf(text) > MAX_LINES).map(([file, text]) => `${file}: ${linesOf(text)}`)).toEqual([])
})

test(`src has at most ${MAX_FILES_PER_1000_LINES} files for 1,000 lines: a file shows a whole idea`, () => {
  const lines = [...texts.values()].reduce((sum, text) => sum + linesOf(text), 0)
  expect((texts.size / lines) * 1000).toBeLessThanOrEqual(MAX_FILES_PER_1000_LINES)
})

test(`no folder of src has more than ${MAX_FILES_OF_FOLDER} files`, () => {
  const counts = new Map<string, number>()
  for (const file of texts.keys()) counts.set(dirname(file), (counts.get(dirname(file)) ?? 0) + 1)
  expect([...counts].filter(([, count]) => count > MAX_FILES_OF_FOLDER)).toEqual([])
})

test('no file stands loose in src but the entrances', () => {
  expect([...texts.keys()].filter((file) => !file.includes('/'))).toEqual(ENTRANCES)
})

test('no two files of src export the same name', () => {
  const homes = new Map<string, string[]>()
  for (const [file, text] of texts) for (const name of exportedNames(text)) homes.set(name, [...(homes.get(name) ?? []), file])
  expect([...homes].filter(([, files]) => files.length > 1)).toEqual([])
})

test('a test beside the source is named for a file of its folder', () => {
  const tests = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.test.ts'))
  expect(tests.filter((file) => !isNamedForFile(file))).toEqual([])
})

/** `calendar.test.ts` and, with a theme, `calendar-time-zone.test.ts` are named for `calendar.ts`. */
function isNamedForFile(test: string): boolean {
  const name = test.replace(/(?:\.slow)?\.test\.ts$/, '')
  return [...texts.keys()].some((file) => name === file.slice(0, -3) || name.startsWith(`${file.slice(0, -3)}-`))
}

const EXPORT = /^export (?:declare )?(?:abstract )?(?:async )?(?:function\*?|const|let|class|interface|type|enum) (\w+)/gm

/** An overloaded function is one name. */
function exportedNames(text: string): Set<string> {
  return new Set([...text.matchAll(EXPORT)].map(([, name]) => name!))
}

function linesOf(text: string): number {
  return text.split('\n').length - 1
}
