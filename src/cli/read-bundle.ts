import { MAX_BUNDLE_BYTES } from '../bundle/bundle-source.ts'
import { readInThread } from '../bundle/read-in-thread.ts'
import type { SharedBundle } from '../bundle/shared-bundle.ts'
import { readFileBounded } from '../files/whole-file.ts'
import type { NamedLimit } from '../policy/compile.ts'
import { expiredBlocks } from '../policy/review/warnings.ts'
import { formatOf } from '../policy/schema/bundle.ts'
import { formatProblem, type Problem } from '../text/problem.ts'
import { readingProblem } from './file-problem.ts'

export interface BundleOfFile {
  readonly bytes: Buffer
  readonly bundle: SharedBundle
  readonly limits: readonly NamedLimit[]
  /** Warnings that apply only in `reverse_proxy`; they have not been printed yet. */
  readonly hostGaps: readonly Problem[]
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
  const read = await readInThread(bytes, formatOf(file))
  printAll(file, 'warning', read.warnings)
  if (read.ok) printAll(file, 'warning', expiredBlocks(read.blockExpiries, Date.now()))
  if (read.ok) return { bytes, bundle: read.bundle, limits: read.limits, hostGaps: read.hostGaps }
  printAll(file, 'error', read.problems)
  return undefined
}

export function printAll(file: string, kind: string, problems: readonly Problem[]): void {
  for (const problem of problems) process.stderr.write(`${file}: ${kind}: ${formatProblem(problem)}\n`)
}
