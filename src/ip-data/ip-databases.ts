import type { Plan } from '../policy/plan.ts'
import { SharedCidrMap, type SharedNetworks, shareNetworks } from '../request/cidr-map.ts'
import { type IpFacts, type ReadList, torExitSteps, typeListSteps } from '../request/ip-facts.ts'

/** The data of a database, in memory that threads share and in the form that lookups use. */
export type IpData =
  | { readonly kind: 'geoip'; readonly bytes: SharedArrayBuffer }
  | { readonly kind: IpListKind; readonly networks: SharedNetworks }

/** The data of one file. */
export interface IpFile {
  readonly path: string
  readonly data: IpData
}

type CountryReader = typeof import('./country-database.ts')

/** The databases in which a worker looks up addresses. */
export class IpDatabases {
  readonly facts: IpFacts = {}
  readonly #onDamage: (path: string, problem: string) => void
  #countries: { readonly path: string; readonly bytes: SharedArrayBuffer } | undefined
  /** Loaded with the first plan that has a rule by country: most plans have none, and loading it takes a tenth of a worker's startup time. */
  #countryReader: CountryReader | undefined

  /** `onDamage` is called for the first record that turns out to be unreadable. */
  constructor(onDamage: (path: string, problem: string) => void) {
    this.#onDamage = onDamage
  }

  /** Replaces the previous data of the same kind. */
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

  /** Loads what the rules of this plan need. Must be awaited before the plan decides. */
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

export type IpListKind = 'ipType' | 'torExits'

export interface SharedList {
  readonly networks: SharedNetworks
  readonly entryCount: number
}

/** Reads a list in small steps into memory that threads share. Throws if a line cannot be read. */
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
