import { countText } from './amounts.ts'
import { callerText } from './caller-values.ts'
import { levelText, resetText } from './counter-text.ts'
import type { CountersResponse } from './responses.ts'
import { listText } from './table.ts'

/** What a caller has left of one rule. */
export function countersText({ policy, rule, mode, values, counters, holds, override }: CountersResponse): string {
  const rows: [string, string][] = [
    ['policy', `${policy} (${mode === 'shadow' ? 'shadow: rejects nothing' : mode})`],
    ['rule', rule],
    ['caller', callerText(values)],
  ]
  for (const counter of counters) rows.push([counter.kind, `${levelText(counter)}, ${resetText(counter)}`])
  if (counters.length === 0) rows.push(['limit', 'none: this rule counts nothing'])
  if (typeof holds === 'number') rows.push(['holds', countText(holds, 'request')])
  if (override) rows.push(['override', `${override}, see edge override --list`])
  return listText(rows, '')
}
