import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parseAst } from 'vitest/node'

export interface Expression {
  /** Such as `request/jwt.ts`. */
  readonly file: string
  readonly source: string
  readonly flags: string
}

const SRC = fileURLToPath(new URL('../../../src/', import.meta.url))

/** All regular expressions that the source is written with, but for those of tests. */
export function expressionsInSource(): Expression[] {
  const files = readdirSync(SRC, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts') && !name.endsWith('.test.ts'))
  return files.sort().flatMap((file) => {
    const found: Expression[] = []
    visit(parseAst(readFileSync(SRC + file, 'utf8'), { lang: 'ts' }), file, found)
    return found
  })
}

function visit(node: unknown, file: string, found: Expression[]): void {
  if (typeof node !== 'object' || node === null) return
  const { regex, callee } = node as { regex?: { pattern: string; flags: string }; callee?: { name?: string } }
  if (regex !== undefined) found.push({ file, source: regex.pattern, flags: regex.flags })
  if (callee?.name === 'RegExp') throw new Error(`${file}: a regular expression that is put together cannot be looked at`)
  for (const child of Object.values(node)) visit(child, file, found)
}
