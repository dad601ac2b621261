import { MAX_BUNDLE_BYTES } from '../bundle/bundle-source.ts'
import { readInThread } from '../bundle/read-in-thread.ts'
import type { SharedBundle } from '../bundle/shared-bundle.ts'
import { keySourceProblems } from '../callers/key-sets/key-source.ts'
import { readFileBounded } from '../files/whole-file.ts'
import { type AllowedHosts, backendHostProblems } from '../outbound/allowed-hosts.ts'
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
  readonly routeCount: number
}

/**
 * Reads a bundle as the service does, and prints every problem and warning, in the order of the file. Returns undefined if it cannot be loaded.
 * `isProxy`: with warnings that apply only in `reverse_proxy`. `hosts`: where backends and key sets may be, if that is known. `isStrict`: a bundle that the service would only
 * warn about is refused where a later release will refuse it.
 */
export async function readBundleFile(
  file: string,
  { isProxy = false, isStrict = false, hosts }: { isProxy?: boolean; isStrict?: boolean; hosts?: AllowedHosts | undefined } = {},
): Promise<BundleOfFile | undefined> {
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
  const read = await readInThread(bytes, format, undefined, 'places')
  if (!read.ok) {
    printInOrder(file, read.problems, read.warnings)
    return undefined
  }
  const { bundle, limits, proxyWarnings, backends, keySetEntries, routeCount } = read
  const forbidden = [
    // Only the service needs the directory of the files.
    ...keySourceProblems(keySetEntries, { backendHosts: hosts, secretsDir: '.' }),
    ...(hosts === undefined ? [] : backendHostProblems(backends, hosts)),
  ]
  if (forbidden.length > 0) {
    printInOrder(file, locateProblems(forbidden, bytes.toString(), format), read.warnings)
    return undefined
  }
  const expired = locateProblems(expiredBlocks(read.blockExpiries, Date.now()), bytes.toString(), format)
  const warnings = [...read.warnings, ...expired, ...(isProxy ? proxyWarnings : [])]
  const refused = isStrict ? warnings.filter(({ isRefusedBeforeUse }) => isRefusedBeforeUse) : []
  printInOrder(
    file,
    refused,
    warnings.filter((warning) => !refused.includes(warning)),
  )
  if (refused.length > 0) return undefined
  return { bytes, bundle, limits, routeCount }
}

/** By line and column. What is said of the whole bundle comes last. */
function printInOrder(file: string, problems: readonly Problem[], warnings: readonly Problem[]): void {
  const all = [...problems.map((problem) => ({ kind: 'error', problem })), ...warnings.map((problem) => ({ kind: 'warning', problem }))]
  const placeOf = (problem: Problem): [number, number] => [problem.line ?? Number.POSITIVE_INFINITY, problem.column ?? 0]
  all.sort((one, other) => {
    const [[line, column], [otherLine, otherColumn]] = [placeOf(one.problem), placeOf(other.problem)]
    return line === otherLine ? column - otherColumn : line - otherLine
  })
  for (const { kind, problem } of all) process.stderr.write(`${problemLine(file, kind, problem)}\n`)
}
