/** A caller of a rule, as operators may see it. */
export interface ShownCaller {
  readonly policy: string
  readonly rule: string
  /** By the rule's limit keys. */
  readonly values: Readonly<Record<string, string>>
}
