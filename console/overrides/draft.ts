import { signal } from '@preact/signals'
import type { CallerValues } from '../../src/admin/api/types.ts'
import { addressOf } from '../navigation.ts'

/** The caller for whom an override is to be created. */
export interface OverrideDraft {
  readonly policy: string
  readonly rule: string
  /** Undefined if the caller is still to be chosen. */
  readonly values: CallerValues | undefined
}

/** The form of somebody who begins with nothing. */
export const NO_DRAFT: OverrideDraft = { policy: '', rule: '', values: undefined }

/** Initial values of the form that another view has asked for. They are not in the address, because values are personal data and browsers keep addresses. */
export const draft = signal<OverrideDraft | undefined>(undefined)

/** Opens the form for an override for this caller. */
export function draftOverride(begun: OverrideDraft): void {
  draft.value = begun
  location.hash = addressOf('overrides')
}
