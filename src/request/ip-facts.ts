import type { Address } from './address.ts'
import { CidrMap } from './cidr-map.ts'

/** What is known of an address beside the address itself. Each part is absent until its data is loaded. */
export interface IpFacts {
  countryOf?: (address: Address) => string | undefined
  types?: CidrMap<string>
  torExits?: CidrMap<true>
}

export interface ReadList<Value> {
  readonly map: CidrMap<Value>
  readonly entryCount: number
  /** The lines that could not be read, by number. */
  readonly badLines: readonly number[]
}

/** `CIDR,type` lines; `#` starts a comment. */
export function readTypeList(text: string): ReadList<string> {
  return readLines(text, (line, map: CidrMap<string>) => {
    const comma = line.indexOf(',')
    const type = line.slice(comma + 1).trim()
    return comma > 0 && type !== '' && map.add(line.slice(0, comma), type)
  })
}

/** One exit address (or CIDR) a line; `#` starts a comment. */
export function readTorExits(text: string): ReadList<true> {
  return readLines(text, (line, map: CidrMap<true>) => map.add(line, true))
}

/** `X-Tor-Exit` as the specification lists its values. */
export function readTorOverride(header: string | undefined): boolean | undefined {
  switch (header?.trim().toLowerCase()) {
    case '1':
    case 'true':
    case 'yes':
      return true
    case '0':
    case 'false':
    case 'no':
      return false
    default:
      return undefined
  }
}

function readLines<Value>(text: string, add: (line: string, map: CidrMap<Value>) => boolean): ReadList<Value> {
  const map = new CidrMap<Value>()
  const badLines: number[] = []
  let entryCount = 0
  for (const [index, raw] of text.split('\n').entries()) {
    const line = raw.replace(/#.*/, '').trim()
    if (line === '') continue
    if (add(line, map)) entryCount++
    else badLines.push(index + 1)
  }
  return { map, entryCount, badLines }
}
