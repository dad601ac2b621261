import { createHash } from 'node:crypto'
import { listIn } from '../../text/problem.ts'
import type { ReadKeys } from './key-set-news.ts'
import type { OpenKeySet } from './worker-key-sets.ts'

const MAX_KEYS = 100

/** Reads which keys a JSON Web Key Set (RFC 7517 5) has, by their ids. Problems quote nothing of the text, which may be another secret. */
export function readKeyIds(text: string): ReadKeys | { readonly problem: string } {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return { problem: 'it is not JSON' }
  }
  const keys = listIn(value, 'keys')
  if (!Array.isArray((value as { keys?: unknown } | null)?.keys)) return { problem: 'it is not an object with "keys", a list of keys' }
  if (keys.length > MAX_KEYS) return { problem: `it has ${keys.length} keys; at most ${MAX_KEYS} are accepted` }
  const kids = keys.map((key) => (key as { kid?: unknown } | null)?.kid).filter((kid) => typeof kid === 'string')
  return { version: createHash('sha256').update(text).digest('base64url'), usable: keys, unused: [], kids }
}

export class KeyIds implements OpenKeySet {
  readonly #kids: ReadonlySet<string>

  constructor({ kids }: ReadKeys) {
    this.#kids = new Set(kids)
  }

  has(kid: string): boolean {
    return this.#kids.has(kid)
  }
}
