import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ROOT, sourceImports } from './source-imports.ts'

test('no file of src imports a file that imports it, directly or through others, not even a type', () => {
  const imports = [...sourceImports()].map(([file, names]) => [file, names.map(({ name }) => name)] as const)
  expect(circles(new Map(imports))).toEqual([])
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

test('console imports nothing of src but the types of the admin API, the difference of lines, and names of events', () => {
  const files = readdirSync(join(ROOT, 'console'), { recursive: true, encoding: 'utf8' }).filter((file) => /\.tsx?$/.test(file))
  const imports = files.flatMap(
    (file) => readFileSync(join(ROOT, 'console', file), 'utf8').match(/^import [^']*'[./]*\/src\/[^']*'/gm) ?? [],
  )
  expect(imports.length).toBeGreaterThan(0)
  expect(
    imports
      .filter((text) => !/^import type \{[^}]*\} from '[./]*\/src\/admin\/api\/(?:(?:backend|caller|instance|key)-)?types\.ts'$/.test(text))
      .filter((text) => !/\/src\/text\/(?:line-diff|request-events)\.ts'$/.test(text)),
  ).toEqual([])
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
