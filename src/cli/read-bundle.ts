import { readFile } from 'node:fs/promises'
import { formatOf } from '../policy/bundle-format.ts'
import { parseBundle } from '../policy/parse.ts'
import { formatProblem, type Problem } from '../policy/problem.ts'
import type { Bundle } from '../policy/schema.ts'
import { readingProblem } from './file-problem.ts'

export interface ReadBundle {
  readonly bytes: Buffer
  readonly bundle: Bundle
}

/** Reads a bundle and prints every problem and warning. Undefined when it cannot be loaded. */
export async function readBundle(file: string): Promise<ReadBundle | undefined> {
  if (file === '-') {
    process.stderr.write('-: files are read here, not standard input; a file of this name is ./-\n')
    return undefined
  }
  let bytes: Buffer
  let text: string
  try {
    bytes = await readFile(file)
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch (error) {
    const isNoText = (error as NodeJS.ErrnoException).code === 'ERR_ENCODING_INVALID_ENCODED_DATA'
    const reason = isNoText ? 'it is not UTF-8 text' : readingProblem(error)
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
