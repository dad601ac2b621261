import type { KeyJson, KeyLabelsJson, KeyPage } from '../../admin/api/key-types.ts'
import type { AdminClient } from '../admin/admin-client.ts'
import { AdminProblem } from '../text/caller-values.ts'

const LIMIT = '1000'

/** Yields all keys with these labels, a page at a time, by rising ids. */
export async function* allKeys(
  client: AdminClient,
  labels: KeyLabelsJson,
): AsyncGenerator<{ readonly page: KeyPage; readonly text: string }> {
  let after: string | null | undefined
  do {
    const query: Record<string, string> = { ...labels, limit: LIMIT, ...(after && { after }) }
    const { json, text } = await client.ask({ method: 'GET', path: 'keys', query })
    const page = json as KeyPage
    if (!Array.isArray(page.keys)) throw new AdminProblem('this version of edge cannot read the list of keys')
    yield { page, text }
    // An instance that gave the same page for ever would never be done.
    if (page.next !== null && after !== undefined && page.next <= after!)
      throw new AdminProblem('the list of keys does not go on after its last page')
    after = page.next
  } while (after !== null)
}

/** A line of an export: what Git keeps of a key. It is the same for the same key, whoever exports it, and whenever. */
export function exportLine({ id, digest, labels, expires_at }: Pick<KeyJson, 'id' | 'digest' | 'labels' | 'expires_at'>): string {
  return JSON.stringify({ id, digest, labels, ...(expires_at !== null && { expires_at }) })
}

export function labelsText(labels: KeyLabelsJson): string {
  return Object.entries(labels)
    .map(([name, value]) => `${name}=${value}`)
    .join(' ')
}
