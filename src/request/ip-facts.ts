import type { Address } from '../text/address.ts'
import { CidrMap, type NetworkLookup } from './cidr-map.ts'

/** Lookups by address. Each is absent until its data is loaded. */
export interface IpFacts {
  countryOf?: (address: Address) => string | undefined
  types?: NetworkLookup<string>
  /** Every address with a value, whatever the value, is an exit. */
  torExits?: NetworkLookup<unknown>
}

export interface ReadList<Value> {
  readonly map: CidrMap<Value>
  readonly entryCount: number
  /** Numbers of the lines that could not be read, at most the first thousand. */
  readonly badLines: readonly number[]
  readonly badLineCount: number
}

/** Reads lines of the form `CIDR,type`; `#` starts a comment. */
export function readTypeList(text: string): ReadList<string> {
  return wholeOf(typeListSteps(text.split('\n')))
}

/** Reads one exit address or CIDR per line; `#` starts a comment. */
export function readTorExits(text: string): ReadList<true> {
  return wholeOf(torExitSteps(text.split('\n'), true))
}

/** Takes one step per line, for callers that must not block for a whole list. */
export function typeListSteps(lines: Iterable<string>): Generator<void, ReadList<string>> {
  return listSteps(lines, (line, map: CidrMap<string>) => {
    const comma = line.indexOf(',')
    const type = line.slice(comma + 1).trim()
    return comma > 0 && type !== '' && map.add(line.slice(0, comma), type)
  })
}

export function torExitSteps<Value>(lines: Iterable<string>, value: Value): Generator<void, ReadList<Value>> {
  return listSteps(lines, (line, map: CidrMap<Value>) => map.add(line, value))
}

/** Reads the values of `X-Tor-Exit` that the specification lists; returns undefined for any other. */
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

const NUMBERED_LINES = 1000

function* listSteps<Value>(lines: Iterable<string>, add: (line: string, map: CidrMap<Value>) => boolean): Generator<void, ReadList<Value>> {
  const map = new CidrMap<Value>()
  const badLines: number[] = []
  let [entryCount, badLineCount, number] = [0, 0, 0]
  for (const raw of lines) {
    number++
    const line = raw.replace(/#.*/, '').trim()
    if (line !== '' && add(line, map)) entryCount++
    else if (line !== '' && ++badLineCount <= NUMBERED_LINES) badLines.push(number)
    yield
  }
  return { map, entryCount, badLines, badLineCount }
}

function wholeOf<Result>(steps: Generator<void, Result>): Result {
  for (;;) {
    const { done, value } = steps.next()
    if (done) return value
  }
}
