import { type IssuedKey, keyDigest, keyIdOf, newKeyText } from '../../../src/callers/keys/issued-key.ts'
import { type KeyMemory, newKeyMemory } from '../../../src/callers/keys/key-memory.ts'
import { KeyTable } from '../../../src/callers/keys/key-table.ts'

export const NOON_MS = Date.UTC(2026, 0, 15, 12)

/** A key as an operator would issue it, and its text. */
export function sampleKey(changes: Partial<IssuedKey> = {}, text = newKeyText()): { readonly text: string; readonly key: IssuedKey } {
  const digest = keyDigest(text)
  const key: IssuedKey = {
    id: keyIdOf(digest),
    digest,
    labels: { team: 'search' },
    expiresMs: undefined,
    createdMs: NOON_MS,
    actor: 'ada',
    reason: 'a test',
    momentMs: NOON_MS,
    edit: undefined,
    isRevoked: false,
    ...changes,
  }
  return { text, key }
}

export function keyTable(maxKeys = 100): { readonly memory: KeyMemory; readonly table: KeyTable } {
  const memory = newKeyMemory(maxKeys)
  const table = new KeyTable(memory)
  table.noteLoaded()
  return { memory, table }
}
