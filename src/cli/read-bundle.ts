import { MAX_BUNDLE_BYTES } from '../bundle/bundle-source.ts'
import { readInThread } from '../bundle/read-in-thread.ts'
import type { SharedBundle } from '../bundle/shared-bundle.ts'
import { readFileBounded } from '../files/whole-file.ts'
import type { NamedLimit } from '../policy/compile.ts'
import { locateProblems } from '../policy/locate-problems.ts'
import { expiredBlocks } from '../policy/review/warnings.ts'
import { formatOf } from '../policy/schema/bundle.ts'
import { type Problem, problemLine } from '../text/problem.ts'
import { readingProblem } from './file-problem.ts'

export interface BundleOfFile {
  readonly bytes: Buffer
  readonly bundle: SharedBundle
  readonly limits: readonly NamedLimit[]
  /** Warnings that apply only in `reverse_proxy`; they have not been printed yet. */
  readonly hostGaps: readonly Problem[]
  /** Finds the places of warnings in the file. */
  readonly locate: (warnings: readonly Problem[]) => readonly Problem[]
}

/** Reads a bundle as the service does, and prints every problem and warning. Returns undefined if it cannot be loaded. */
export async function readBundleFile(file: string): Promise<BundleOfFile | undefined> {
  if (file === '-') {
    process.stderr.write('-: standard input is not supported; for a file of this name write ./-\n')
    return undefined
  }
  let bytes: Buffer
  try {
    bytes = await readFileBounded(file, MAX_BUNDLE_BYTES)
  } catch (error) {
    process.stderr.write(`${file}: ${readingProblem(error)}\n`)
    return undefined
  }
  const format = formatOf(file)
  const read = await readInThread(bytes, format)
  if (!read.ok) {
    printAll(file, 'warning', read.warnings)
    printAll(file, 'error', read.problems)
    return undefined
  }
  const { bundle, limits, hostGaps } = read
  const locate = (warnings: readonly Problem[]): readonly Problem[] => locateProblems(warnings, bytes.toString(), format)
  printAll(file, 'warning', locate([...read.warnings, ...expiredBlocks(read.blockExpiries, Date.now())]))
  return { bytes, bundle, limits, hostGaps, locate }
}

export function printAll(file: string, kind: string, problems: readonly Problem[]): void {
  for (const problem of problems) process.stderr.write(`${problemLine(file, kind, problem)}\n`)
}
