import { type CountryResponse, Reader } from 'mmdb-lib'
import { type Address, formatAddress } from '../request/address.ts'
import type { IpFacts } from '../request/ip-facts.ts'
import { SharedCidrMap, type SharedNetworks } from '../request/shared-cidr-map.ts'
import type { IpListKind } from './ip-list.ts'

/** What a database holds, in memory that threads share, as it is looked up in. */
export type IpData =
  | { readonly kind: 'geoip'; readonly bytes: SharedArrayBuffer }
  | { readonly kind: IpListKind; readonly networks: SharedNetworks }

/** Puts it in the place of what was known. `onDamage` hears of the first record that turns out to be unreadable later. */
export function useIpData(facts: IpFacts, data: IpData, onDamage: (problem: string) => void): void {
  switch (data.kind) {
    case 'geoip':
      facts.countryOf = countryLookup(Buffer.from(data.bytes), onDamage)
      return
    case 'ipType':
      facts.types = new SharedCidrMap(data.networks)
      return
    case 'torExits':
      facts.torExits = new SharedCidrMap(data.networks)
  }
}

/** Throws when it is no database of countries. */
export function checkCountryFile(bytes: Buffer): void {
  openReader(bytes)
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
      if (!isDamaged) onDamage(`it has an unreadable record: ${(error as Error).message}`)
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
