import { addressOf } from '../navigation.ts'
import type { AskedCaller } from './read-asked.ts'

/** An operator who goes back in the history of the tab finds this many callers. */
const KEPT_CALLERS = 50
const kept = new Map<string, AskedCaller>()
/** The page may be loaded again, and an address of before must not show the caller of another question. */
let lastNumber = crypto.getRandomValues(new Uint32Array(1))[0]!

/**
 * Opens the view of a caller. Its values may be credentials and are personal data, so they are kept in this tab's memory alone: browsers remember addresses,
 * and people share them. The address has a number instead.
 */
export function openCaller(asked: AskedCaller): void {
  const number = String(++lastNumber)
  kept.set(number, asked)
  if (kept.size > KEPT_CALLERS) kept.delete(kept.keys().next().value!)
  location.hash = addressOf('caller', { asked: number })
}

/** Returns the caller that an address means; undefined if this tab does not know it, for example because it was loaded again. */
export function callerAt(parameters: URLSearchParams): AskedCaller | undefined {
  return kept.get(parameters.get('asked') ?? '')
}

export function forgetCallers(): void {
  kept.clear()
}
