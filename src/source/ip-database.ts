import { type CountryResponse, Reader } from 'mmdb-lib'
import { type Address, formatAddress } from '../request/address.ts'
import { type IpFacts, type ReadList, readTorExits, readTypeList } from '../request/ip-facts.ts'

export type IpFileKind = 'geoip' | 'ipType' | 'torExits'

/**
 * Puts a file's content in the place of what was known. Throws when it is not what it should be, and then nothing has
 * changed. Answers how many entries it has, where that can be told. `onDamage` hears of the first record that turns out
 * to be unreadable later.
 */
export function loadIpFile(facts: IpFacts, kind: IpFileKind, bytes: Buffer, onDamage: (problem: string) => void): number | undefined {
  switch (kind) {
    case 'geoip':
      facts.countryOf = countryLookup(bytes, onDamage)
      return undefined
    case 'ipType': {
      const list = wholeList(readTypeList(bytes.toString('utf8')))
      facts.types = list.map
      return list.entryCount
    }
    case 'torExits': {
      const list = wholeList(readTorExits(bytes.toString('utf8')))
      facts.torExits = list.map
      return list.entryCount
    }
  }
}

/** Both layouts in use: a flat `country_code`, and MaxMind's `country.iso_code`. */
type CountryRecord = CountryResponse & { readonly country_code?: string }

/** A record that cannot be read is no country, and no reason to fail a request. */
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
