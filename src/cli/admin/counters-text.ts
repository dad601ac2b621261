import type { CallerValues, CountersJson } from '../../admin/api/types.ts'
import { countText } from './amounts.ts'
import { callerText, keysWithDigests } from './caller-values.ts'
import { levelText, resetText } from './counter-text.ts'
import { listText } from './table.ts'

/** What a caller has left of one rule. `given`: the values by which the operator named the caller. */
export function countersText(response: CountersJson, given: CallerValues): string {
  const { policy, rule, mode, values, counters, holds, override } = response
  const rows: [string, string][] = [
    ['policy', `${policy} (${mode === 'shadow' ? 'shadow: rejects nothing' : mode})`],
    ['rule', rule],
    ['caller', callerText(values)],
  ]
  for (const counter of counters) rows.push([counter.kind, `${levelText(counter)}, ${resetText(counter)}`])
  if (counters.length === 0) rows.push(['limit', 'none: this rule counts nothing'])
  if (typeof holds === 'number') rows.push(['holds', countText(holds, 'request')])
  if (override) rows.push(['override', `${override}, see edge override --list`])
  for (const key of keysWithDigests(given, values)) rows.push(['note', `${key}: this looks like a digest; expected the credential itself`])
  return listText(rows, '')
}
