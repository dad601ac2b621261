import { signal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { ask } from '../api.ts'
import { status } from '../status.ts'

export interface CatalogRule {
  readonly name: string
  readonly limit_keys: readonly string[]
  readonly algorithm: string
  readonly algorithm_config: Readonly<Record<string, unknown>>
}

interface CatalogPolicy {
  readonly id: string
  readonly rules: readonly CatalogRule[]
}

interface PolicyPage {
  readonly next: string | null
  readonly policies: readonly CatalogPolicy[]
}

/** As many as the API gives at once. */
const PAGE = 1000

/** All policies of the active bundle by id, for choosing one; undefined until they are here. */
const catalog = signal<ReadonlyMap<string, CatalogPolicy> | undefined>(undefined)
/** Of the bundle that they belong to. */
let loadedHash: string | undefined

/** Asks for them once for each bundle, whichever views use them. */
export function usePolicyCatalog(): ReadonlyMap<string, CatalogPolicy> | undefined {
  const current = status.value
  useEffect(() => {
    if (current !== undefined) void load(current.bundle?.hash ?? '')
  }, [current])
  return catalog.value
}

async function load(hash: string): Promise<void> {
  if (hash === loadedHash) return
  loadedHash = hash
  try {
    const found = new Map<string, CatalogPolicy>()
    let after: string | null = null
    do {
      const query: string = after === null ? '' : `&after=${encodeURIComponent(after)}`
      const { policies, next }: PolicyPage = await ask('GET', `policies?limit=${PAGE}${query}`)
      if (loadedHash !== hash) return
      for (const { id, rules } of policies) found.set(id, { id, rules })
      after = next
    } while (after !== null)
    catalog.value = found
  } catch {
    // Lost, or another bundle became active meanwhile: the next status tries again.
    if (loadedHash === hash) loadedHash = undefined
  }
}
