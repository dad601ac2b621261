import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

export const ROOT = join(import.meta.dirname, '../..')

/**
 * By file of src, tests left out: what it imports, statically or when it runs, values or types. Paths are below src; Node's own modules and
 * packages keep their names.
 */
export function sourceImports(): ReadonlyMap<string, readonly string[]> {
  const files = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' })
  const sources = files.filter((file) => file.endsWith('.ts') && !file.endsWith('.test.ts'))
  return new Map(
    sources.map((file) => {
      const text = readFileSync(join(ROOT, 'src', file), 'utf8')
      const names = [...text.matchAll(/(?:from|import)\s*\(?\s*'([^']+)'/g)].map(([, name]) => name!)
      return [file, names.map((name) => (name.startsWith('.') ? join(dirname(file), name) : name))]
    }),
  )
}
