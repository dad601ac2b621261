import type { Logger } from 'pino'
import type { NamedLimit } from '../policy/compile.ts'
import { heldRuleNote, heldRules } from '../policy/held-rules.ts'

/** Enough to show what happens; `edge validate` lists all. */
const LOGGED_RULES = 50

/** Says which rules of a bundle count requests for as long as a hold lasts, where nobody need report the end of a request. */
export function logHeldRules(limits: readonly NamedLimit[], logger: Logger): void {
  const rules = heldRules(limits).slice(0, LOGGED_RULES).map(heldRuleNote)
  if (rules.length === 0) return
  logger.warn({ event: 'holds_expire', rules }, 'concurrency rules count each request for hold_seconds, unless the gateway reports its end')
}
