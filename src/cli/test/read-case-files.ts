import { type FoundCase, MAX_CASES_BYTES, readCases } from '../../cases/read-cases.ts'
import { readBounded, readFileBounded } from '../../files/read-file-bounded.ts'
import { formatProblem } from '../../policy/problem.ts'
import { printableText } from '../../printable-text.ts'
import { readingProblem } from '../file-problem.ts'

export interface CaseFile {
  readonly file: string
  readonly cases: readonly FoundCase[]
}

/** Reads all of them, and prints every problem. Undefined when one cannot be used. */
export async function readCaseFiles(files: readonly string[]): Promise<CaseFile[] | undefined> {
  const read: CaseFile[] = []
  for (const file of files) {
    const cases = await readCaseFile(file)
    if (cases !== undefined) read.push({ file, cases })
  }
  return read.length === files.length ? read : undefined
}

async function readCaseFile(file: string): Promise<readonly FoundCase[] | undefined> {
  let text: string
  try {
    const bytes = file === '-' ? await readBounded(process.stdin, MAX_CASES_BYTES) : await readFileBounded(file, MAX_CASES_BYTES)
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch (error) {
    const problem = error instanceof TypeError ? 'it is not valid UTF-8' : readingProblem(error)
    print(file, undefined, problem)
    return undefined
  }
  const read = readCases(text)
  if ('cases' in read) return read.cases
  for (const problem of read.problems) print(file, problem.line, formatProblem(problem))
  return undefined
}

function print(file: string, line: number | undefined, problem: string): void {
  process.stderr.write(printableText(`${file}${line === undefined ? '' : `:${line}`}: error: ${problem}`).concat('\n'))
}
