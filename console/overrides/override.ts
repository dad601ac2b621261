import type { CallerValues } from '../caller-values.ts'

/** An operator's change, as the admin API lists it. */
export interface Override {
  readonly id: string
  readonly policy?: string
  readonly rule?: string
  /** Null: all callers. */
  readonly values?: CallerValues | null
  readonly multiply?: number
  readonly set?: Readonly<Record<string, unknown>>
  readonly unlimited?: true
  readonly block?: true
  readonly shadow_all?: true
  readonly until: string
  readonly reason: string
  readonly actor: string
  readonly created_at: string
  readonly durable: boolean
  readonly in_force: boolean
}

export interface Overrides {
  readonly overrides: readonly Override[]
}

/** What it changes, in a few words. */
export function changeText({ multiply, set, unlimited, block, shadow_all: isShadowAll }: Override): string {
  if (isShadowAll) return 'Nothing is enforced'
  if (multiply !== undefined) return `${multiply} × the limit`
  if (unlimited) return 'No limit'
  if (block) return 'Blocked: 403'
  return Object.entries(set ?? {})
    .map(([field, value]) => `${field} ${value}`)
    .join(', ')
}
