import { signal } from '@preact/signals'
import type { CallerValues } from '../../src/admin/api/types.ts'
import { addressOf } from '../navigation.ts'

/** Whom an override is to be made for. */
export interface OverrideDraft {
  readonly policy: string
  readonly rule: string
  /** Undefined: still to be chosen. */
  readonly values: CallerValues | undefined
}

/** What another view asks the form to begin with. It is not in the address: values are personal data, and addresses are kept by browsers. */
export const draft = signal<OverrideDraft | undefined>(undefined)

/** Opens the form for an override of this caller. */
export function draftOverride(begun: OverrideDraft): void {
  draft.value = begun
  location.hash = addressOf('overrides')
}
