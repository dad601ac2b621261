import type { Plan } from '../policy/plan.ts'
import type { IpFacts } from '../request/ip-facts.ts'
import { SharedCidrMap, type SharedNetworks } from '../request/shared-cidr-map.ts'
import type { IpListKind } from './ip-list.ts'

/** What a database holds, in memory that threads share, as it is looked up in. */
export type IpData =
  | { readonly kind: 'geoip'; readonly bytes: SharedArrayBuffer }
  | { readonly kind: IpListKind; readonly networks: SharedNetworks }

/** What a file holds. */
export interface IpFile {
  readonly path: string
  readonly data: IpData
}

type CountryReader = typeof import('./country-database.ts')

/** The databases that a worker looks addresses up in. */
export class IpDatabases {
  readonly facts: IpFacts = {}
  readonly #onDamage: (path: string, problem: string) => void
  #countries: { readonly path: string; readonly bytes: SharedArrayBuffer } | undefined
  /** Loaded with the first plan that has a rule by country: most have none, and it takes a tenth of a worker's start. */
  #countryReader: CountryReader | undefined

  /** `onDamage` is called for the first record that turns out to be unreadable. */
  constructor(onDamage: (path: string, problem: string) => void) {
    this.#onDamage = onDamage
  }

  /** Puts it in the place of what was there. */
  use({ path, data }: IpFile): void {
    switch (data.kind) {
      case 'geoip':
        this.#countries = { path, bytes: data.bytes }
        this.#openCountries()
        return
      case 'ipType':
        this.facts.types = new SharedCidrMap(data.networks)
        return
      case 'torExits':
        this.facts.torExits = new SharedCidrMap(data.networks)
    }
  }

  /** Loads what the rules of this plan need. To be awaited before it decides. */
  async prepareFor({ keys }: Plan): Promise<void> {
    if (this.#countryReader !== undefined || !keys.some((key) => key.kind === 'ip' && key.fact === 'country')) return
    this.#countryReader = await import('./country-database.ts')
    this.#openCountries()
  }

  #openCountries(): void {
    if (this.#countryReader === undefined || this.#countries === undefined) return
    const { path, bytes } = this.#countries
    this.facts.countryOf = this.#countryReader.countryLookup(Buffer.from(bytes), (problem) => this.#onDamage(path, problem))
  }
}
