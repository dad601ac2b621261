import { BUCKET } from '../../limiter/limit.ts'
import type { Probe } from './link/probe.ts'
import type { Script } from './link/script.ts'
import { queryArguments } from './script-arguments.ts'

/** A bucket of one token, which refills in a millisecond. */
const LIMIT = { kind: BUCKET, tokensPerMs: 1, burst: 1 } as const

/** A call that does what decisions do, on a key of its own that expires at once. */
export function counterProbe(script: Script, key: string): Probe {
  const row = { row: 0, key, limit: LIMIT, ageMs: 0, cost: 1, most: 1, lease: 0, knownResetMs: 0, wallMs: 0 }
  return { script, keys: [key], args: queryArguments('take', [row], 0), isValidReply }
}

/** Whether it fits (or not, as several workers may probe at once), then the time. */
function isValidReply(reply: unknown): boolean {
  return typeof reply === 'string' && /^[01] \d/.test(reply)
}
