import type { ApiFailure } from '../api.ts'

/** Parts of the form that a problem can belong to. */
export type FormPart = 'policy' | 'rule' | 'values' | 'change' | 'until' | 'reason'

export type FieldProblems = Readonly<Partial<Record<FormPart, string>>>

const BY_CODE: Readonly<Record<string, FormPart>> = {
  unknown_policy: 'policy',
  unknown_rule: 'rule',
  wrong_values: 'values',
  bad_until: 'until',
  missing_reason: 'reason',
}

/** Returns the part of the form that a refusal is about, or undefined if it is about none. */
export function partOf({ code, message }: ApiFailure): FormPart | undefined {
  if (code !== 'bad_request') return BY_CODE[code]
  return (/^(policy|rule|reason):/.exec(message)?.[1] as FormPart | undefined) ?? 'change'
}
