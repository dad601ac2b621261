import type { IssuedKey } from '../../../src/callers/keys/issued-key.ts'
import { KeyJournal } from '../../../src/callers/keys/key-journal.ts'

/** Writes a file for EDGE_KEYS_FILE. */
export async function writeKeyFile(path: string, keys: readonly IssuedKey[]): Promise<void> {
  const journal = await KeyJournal.open(path, { expect() {}, note() {}, noteRevoked() {}, noteSynced() {} })
  await journal.append(keys, { size: keys.length, keys: () => keys, revoked: { ids: () => [] } })
  await journal.close()
}
