import type { Allowed, Rejected } from '../engine/decision.ts'
import type { HeaderList } from '../http/header-list.ts'

const MAX_VALUE_CHARACTERS = 256
// A bundle may key a request in many ways; clients bound the size of a head.
const MAX_DESCRIPTORS = 32

/** What an operator with a debug session sees. */
export function pushDebug(headers: HeaderList, decision: Allowed | Rejected, latencyMs: number): void {
  const { policy, rule } = decision
  headers.push(
    'X-Edge-Debug-Decision',
    decision.action,
    'X-Edge-Debug-Mode',
    modeOf(decision),
    'X-Edge-Debug-Reason',
    decision.reason,
    'X-Edge-Debug-Policy',
    policy?.id ?? 'none',
    'X-Edge-Debug-Rule',
    rule?.name ?? 'none',
    'X-Edge-Debug-Latency-Us',
    `${Math.round(latencyMs * 1000)}`,
    'X-Edge-Debug-Matched-Policies',
    `${decision.matchedPolicies}`,
  )
  decision.descriptors.slice(0, MAX_DESCRIPTORS).forEach(({ key, value }, index) => {
    headers.push(`X-Edge-Debug-Descriptor-${index + 1}-Key`, headerSafe(key))
    headers.push(`X-Edge-Debug-Descriptor-${index + 1}-Value`, headerSafe(value))
  })
}

function modeOf({ policy, isShadowed }: Allowed | Rejected): string {
  if (policy === undefined) return 'none'
  return isShadowed ? 'shadow' : policy.mode
}

/** Callers choose these values: no control characters, nothing outside Latin-1, not endless. */
function headerSafe(text: string): string {
  return text.slice(0, MAX_VALUE_CHARACTERS).replace(/[^\x20-\x7e\xa0-\xff]/g, '?')
}
