import type { Script } from './link/call.ts'
import type { Probe } from './link/redis-node.ts'

/** A bucket of one token that is back after a millisecond. */
const ARGS = ['take', '1', '1', '1', '1', '0', '0']

/** A call that does what decisions do, on a key of its own, and leaves nothing. */
export function counterProbe(script: Script, key: string): Probe {
  return { script, keys: [key], args: ARGS, isAnswer }
}

/** It fits or not, as several workers may probe at once; then the time. */
function isAnswer(reply: unknown): boolean {
  return typeof reply === 'string' && /^[01] \d/.test(reply)
}
