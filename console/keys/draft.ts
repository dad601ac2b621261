import { signal } from '@preact/signals'
import type { KeyLabelsJson } from '../../src/admin/api/key-types.ts'
import { addressOf } from '../navigation.ts'

/** Labels of the key that another view has asked for. They are not in the address, because they may name people and browsers keep addresses. */
const draft = signal<KeyLabelsJson | undefined>(undefined)

/** Opens the form for a key with these labels, which is how a key is rotated. */
export function draftKey(labels: KeyLabelsJson): void {
  draft.value = labels
  location.hash = addressOf('keys')
}

/** Returns what another view asked for, only once. */
export function takeDraftedKey(): KeyLabelsJson | undefined {
  const taken = draft.peek()
  draft.value = undefined
  return taken
}
