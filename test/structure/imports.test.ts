import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ROOT, sourceImports } from './source-imports.ts'

test('no file of src imports a file that imports it, directly or through others, not even a type', () => {
  expect(circles(sourceImports())).toEqual([])
})

test('a circle is found', () => {
  const imports = new Map([
    ['a', ['b', 'd']],
    ['b', ['c']],
    ['c', ['a']],
    ['d', []],
  ])
  expect(circles(imports)).toEqual(['a → b → c → a'])
})

test('console imports nothing of src but the types of the admin API', () => {
  const files = readdirSync(join(ROOT, 'console'), { recursive: true, encoding: 'utf8' }).filter((file) => /\.tsx?$/.test(file))
  const lines = files.flatMap((file) => readFileSync(join(ROOT, 'console', file), 'utf8').match(/^.*\bfrom '[./]*\/src\/.*'/gm) ?? [])
  expect(lines.length).toBeGreaterThan(0)
  expect(lines.filter((line) => !/^import type \{.*\/src\/admin\/api\/(?:instance-)?types\.ts'$/.test(line))).toEqual([])
})

test('ARCHITECTURE.md has every room of src, and no room that is not there', () => {
  const map = readFileSync(join(ROOT, 'ARCHITECTURE.md'), 'utf8')
  const named = new Set([...map.matchAll(/^\| `src\/([\w-]+)\//gm)].map(([, room]) => room!))
  const rooms = readdirSync(join(ROOT, 'src'), { withFileTypes: true }).filter((entry) => entry.isDirectory())
  expect([...named].sort()).toEqual(rooms.map(({ name }) => name).sort())
})

/** Each circle once, from the file at which it was met first. */
function circles(imports: ReadonlyMap<string, readonly string[]>): string[] {
  const found: string[] = []
  const done = new Set<string>()
  const path: string[] = []
  const visit = (file: string): void => {
    const at = path.indexOf(file)
    if (at >= 0) found.push([...path.slice(at), file].join(' → '))
    if (at >= 0 || done.has(file)) return
    path.push(file)
    for (const imported of imports.get(file) ?? []) visit(imported)
    path.pop()
    done.add(file)
  }
  for (const file of imports.keys()) visit(file)
  return found
}
