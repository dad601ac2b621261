import { readFile } from 'node:fs/promises'
import { formatOf, parseBundle } from '../policy/parse.ts'
import { formatProblem, type Problem } from '../policy/problem.ts'
import type { Bundle } from '../policy/schema.ts'

export interface ReadBundle {
  readonly bytes: Buffer
  readonly bundle: Bundle
}

/** Reads a bundle and prints every problem and warning. Undefined when it cannot be loaded. */
export async function readBundle(file: string): Promise<ReadBundle | undefined> {
  let bytes: Buffer
  let text: string
  try {
    bytes = await readFile(file)
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    const reason =
      code === 'ENOENT' ? 'there is no such file' : code === 'ERR_ENCODING_INVALID_ENCODED_DATA' ? 'it is not UTF-8 text' : message
    process.stderr.write(`${file}: ${reason}\n`)
    return undefined
  }
  const parsed = parseBundle(text, formatOf(file))
  print(file, 'warning', parsed.warnings)
  if (parsed.ok) return { bytes, bundle: parsed.bundle }
  print(file, 'error', parsed.problems)
  return undefined
}

function print(file: string, kind: string, problems: readonly Problem[]): void {
  for (const problem of problems) process.stderr.write(`${file}: ${kind}: ${formatProblem(problem)}\n`)
}
