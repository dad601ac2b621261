import { type CountryResponse, Reader } from 'mmdb-lib'
import { type Address, formatAddress } from '../text/address.ts'

/** Covers both layouts in use: a flat `country_code`, and MaxMind's `country.iso_code`. */
type CountryRecord = CountryResponse & { readonly country_code?: string }

/** An unreadable record counts as no country and does not fail a request; `onDamage` is called for the first one. */
export function countryLookup(bytes: Buffer, onDamage: (problem: string) => void): (address: Address) => string | undefined {
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

/** Throws if the bytes are not an MMDB file. */
export function checkCountryFile(bytes: Buffer): void {
  openReader(bytes)
}

function openReader(bytes: Buffer): Reader<CountryRecord> {
  try {
    return new Reader<CountryRecord>(bytes)
  } catch (cause) {
    throw new Error('it is not an MMDB file', { cause })
  }
}
