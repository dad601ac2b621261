import { LIVE_MS, Poll } from './live.ts'

export interface Problem {
  readonly code: string
  readonly message: string
  readonly since: string
}

export interface Status {
  readonly version: string
  readonly uptime_s: number
  readonly mode: 'decision_service' | 'reverse_proxy'
  readonly workers: { readonly configured: number; readonly alive: number }
  readonly bundle: { readonly version: string; readonly hash: string; readonly applied_at: string; readonly policies: number } | null
  readonly store: { readonly kind: 'embedded' | 'redis'; readonly slots: number; readonly occupied: number }
  readonly redis: { readonly mode: 'exact' | 'leased'; readonly connected: boolean } | null
  readonly state_file: { readonly path: string; readonly saved_at: string | null } | null
  readonly shadow_all: { readonly until: string; readonly actor: string; readonly reason: string } | null
  readonly problems: readonly Problem[]
}

/** The shell asks for it; views only look. */
export const statusPoll = new Poll<Status>('status', LIVE_MS)
export const status = statusPoll.data
