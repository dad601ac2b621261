/** Returns a rule's name with that of its policy, because rule names are unique only within a policy. */
export function fullName({ policy, rule }: { readonly policy: string; readonly rule: string }): string {
  return `${policy} / ${rule}`
}

const LIMITS: Readonly<Record<string, string>> = { minute: 'tokens per minute', day: 'tokens per day', budget: 'money' }

/** Names the limit that a counter of such a rule is about. */
export function limitName(kind: string): string {
  return LIMITS[kind] ?? kind
}
