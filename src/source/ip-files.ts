import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { type CountryResponse, Reader } from 'mmdb-lib'
import { type Address, formatAddress } from '../request/address.ts'
import { type IpFacts, type ReadList, readTorExits, readTypeList } from '../request/ip-facts.ts'
import { WatchedFile } from './watched-file.ts'

export interface IpFilePaths {
  readonly geoip: string | undefined
  readonly ipType: string | undefined
  readonly torExits: string | undefined
}

export interface IpFileListener {
  onLoaded(path: string, entryCount: number | undefined): void
  /** The file stays out; what was loaded before stays in. */
  onProblem(path: string, problem: string): void
}

export interface FollowedFiles {
  /** All have been looked at once. */
  readonly started: Promise<void>
  stop(): void
}

/** Loads the IP databases into `facts`, and again whenever they change. */
export function followIpFiles(paths: IpFilePaths, facts: IpFacts, listener: IpFileListener): FollowedFiles {
  const loadCountries = (path: string, bytes: Buffer): undefined => {
    facts.countryOf = countryLookup(bytes, (problem) => listener.onProblem(path, problem))
  }
  const files = [
    follow(paths.geoip, listener, (bytes) => loadCountries(paths.geoip!, bytes)),
    follow(paths.ipType, listener, (bytes) => {
      const list = wholeList(readTypeList(bytes.toString('utf8')))
      facts.types = list.map
      return list.entryCount
    }),
    follow(paths.torExits, listener, (bytes) => {
      const list = wholeList(readTorExits(bytes.toString('utf8')))
      facts.torExits = list.map
      return list.entryCount
    }),
  ]
  const start = async (): Promise<void> => {
    loadCountries(embeddedCountryFile(), await readFile(embeddedCountryFile()))
    await Promise.all(files.map((file) => file?.start()))
  }
  return {
    started: start(),
    stop() {
      for (const file of files) file?.stop()
    },
  }
}

const MAX_IP_FILE_BYTES = 256 * 1024 * 1024

function follow(path: string | undefined, listener: IpFileListener, load: (bytes: Buffer) => number | undefined): WatchedFile | undefined {
  if (path === undefined) return undefined
  return new WatchedFile(path, MAX_IP_FILE_BYTES, {
    onContent(bytes) {
      try {
        listener.onLoaded(path, load(bytes))
      } catch (error) {
        listener.onProblem(path, (error as Error).message)
      }
    },
    onProblem: (error) => listener.onProblem(path, error.message),
  })
}

function embeddedCountryFile(): string {
  return createRequire(import.meta.url).resolve('@ip-location-db/geo-whois-asn-country-mmdb/geo-whois-asn-country.mmdb')
}

/** Both layouts in use: a flat `country_code`, and MaxMind's `country.iso_code`. */
type CountryRecord = CountryResponse & { readonly country_code?: string }

/** A record that cannot be read is no country, and no reason to fail a request; `onDamage` hears of the first one. */
function countryLookup(bytes: Buffer, onDamage: (problem: string) => void): (address: Address) => string | undefined {
  const reader = openReader(bytes)
  const hasV6 = reader.metadata.ipVersion === 6
  let isDamaged = false
  return (address) => {
    if (address.isV6 && !hasV6) return undefined
    try {
      const record = reader.get(formatAddress(address))
      return record?.country_code ?? record?.country?.iso_code
    } catch (error) {
      if (!isDamaged) onDamage(`it has a record that cannot be read: ${(error as Error).message}`)
      isDamaged = true
      return undefined
    }
  }
}

function openReader(bytes: Buffer): Reader<CountryRecord> {
  try {
    return new Reader<CountryRecord>(bytes)
  } catch (cause) {
    throw new Error('it is not an MMDB file', { cause })
  }
}

const NAMED_LINES = 5

function wholeList<Value>(list: ReadList<Value>): ReadList<Value> {
  const { badLines } = list
  if (badLines.length === 0) return list
  const more = badLines.length > NAMED_LINES ? ` and ${badLines.length - NAMED_LINES} more` : ''
  throw new Error(`cannot read line ${badLines.slice(0, NAMED_LINES).join(', ')}${more}`)
}
