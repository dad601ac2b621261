/** Policies as `GET policies` has them. */

export interface PolicyPage {
  readonly bundle_version: string | null
  /** The value of `after` for the next page. */
  readonly next: string | null
  readonly policies: readonly Policy[]
}

export interface Policy {
  readonly id: string
  readonly mode: 'enforce' | 'shadow'
  readonly selector: Selector
  readonly last_minute: { readonly allowed: number; readonly rejected: number; readonly would_reject: number }
  readonly rules: readonly Rule[]
}

export interface Selector {
  readonly pathPrefix?: string
  readonly pathExact?: string
  readonly exceptPaths?: readonly string[]
  readonly methods?: readonly string[]
  readonly hosts?: readonly string[]
  readonly domain?: string
  readonly descriptors?: Patterns
}

/** Descriptor keys, and the values that each may have. */
export type Patterns = Readonly<Record<string, string | readonly string[]>>

export interface Rule {
  readonly name: string
  readonly limit_keys: readonly string[]
  readonly match?: 'else' | Patterns
  readonly algorithm: string
  /** Its fields depend on the algorithm. */
  readonly algorithm_config: Readonly<Record<string, unknown>>
  readonly last_minute: { readonly rejected: number; readonly would_reject: number }
}

/** The path of the admin API for policies, with the parameters that are given. */
export function policiesPath(parameters: Readonly<Record<string, string | undefined>>): string {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(parameters)) if (value !== undefined && value !== '') query.set(name, value)
  return `policies?${query}`
}
