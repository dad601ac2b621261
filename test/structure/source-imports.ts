import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

export const ROOT = join(import.meta.dirname, '../..')

export interface Import {
  /** A path below src, or the name of a package or of one of Node's own modules. */
  readonly name: string
  /** Whether nothing but types is imported. */
  readonly isType: boolean
}

/** The files of src, tests left out, by their paths below it. */
export function sourceFiles(): string[] {
  const files = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' })
  return files.filter((file) => file.endsWith('.ts') && !file.endsWith('.test.ts')).sort()
}

/** By file of src: what it imports, statically or when it runs, values or types. */
export function sourceImports(): ReadonlyMap<string, readonly Import[]> {
  return new Map(sourceFiles().map((file) => [file, importsOf(file, readFileSync(join(ROOT, 'src', file), 'utf8'))]))
}

const STATEMENT = /^(?:import|export) (type )?(?:[\w*{][^'"`;()=]*? from )?'([^']+)'/gm
const EXPRESSION = /\bimport\('([^']+)'\)/g

function importsOf(file: string, text: string): Import[] {
  const statements = [...text.matchAll(STATEMENT)].map(([, type, name]) => ({ name: name!, isType: type !== undefined }))
  const expressions = [...text.matchAll(EXPRESSION)].map(([, name]) => ({ name: name!, isType: false }))
  return [...statements, ...expressions].map(({ name, isType }) => ({
    name: name.startsWith('.') ? join(dirname(file), name) : name,
    isType,
  }))
}
