import type { CounterStatus } from '../../engine/counter-status.ts'
import type { CounterJson } from './types.ts'

/** A counter as all endpoints show it. */
export function counterJson({ kind, level, limit, remaining, resetMs }: CounterStatus): CounterJson {
  return { kind, level, limit, remaining, reset_s: wholeSeconds(resetMs) }
}

/** Rounded up, as in RateLimit-Reset and Retry-After: what was waited for is there. */
export function wholeSeconds(ms: number): number {
  return Math.ceil(ms / 1000)
}
