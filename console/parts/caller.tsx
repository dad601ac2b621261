import type { CallerValues } from '../../src/admin/api/types.ts'
import { isCredential, shownValue } from '../caller-values.ts'

/** Shows the values that name a caller, with credentials as digests. A rule without keys has one counter for everybody. */
export function Caller({ values }: { readonly values: CallerValues }) {
  const pairs = Object.entries(values)
  if (pairs.length === 0) return <div>everybody</div>
  return (
    <ul class="caller">
      {pairs.map(([key, value]) => (
        <li key={key}>
          <span class="quiet">{key}</span> <span class="mono">{shownValue(value)}</span>
          {isCredential(key) && <span class="quiet"> (digest)</span>}
        </li>
      ))}
    </ul>
  )
}
