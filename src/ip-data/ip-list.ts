import { type ReadList, torExitSteps, typeListSteps } from '../request/ip-facts.ts'
import { type SharedNetworks, shareNetworks } from '../request/shared-cidr-map.ts'

export type IpListKind = 'ipType' | 'torExits'

export interface SharedList {
  readonly networks: SharedNetworks
  readonly entryCount: number
}

/** Reads a list in small steps, into memory that threads share. Throws when a line cannot be read. */
export function* shareList(kind: IpListKind, bytes: Buffer): Generator<void, SharedList> {
  const lines = linesOf(bytes)
  const list = yield* kind === 'ipType' ? typeListSteps(lines) : torExitSteps(lines, 'true')
  const problem = problemOf(list)
  if (problem !== undefined) throw new Error(problem)
  return { networks: yield* shareNetworks(list.map), entryCount: list.entryCount }
}

function* linesOf(bytes: Buffer): Generator<string> {
  for (let start = 0; start <= bytes.length; ) {
    const found = bytes.indexOf(0x0a, start)
    const end = found < 0 ? bytes.length : found
    yield bytes.toString('utf8', start, end)
    start = end + 1
  }
}

const NAMED_LINES = 5

function problemOf({ badLines, badLineCount }: ReadList<string>): string | undefined {
  if (badLineCount === 0) return undefined
  const more = badLineCount > NAMED_LINES ? ` and ${badLineCount - NAMED_LINES} more` : ''
  return `cannot read line ${badLines.slice(0, NAMED_LINES).join(', ')}${more}`
}
