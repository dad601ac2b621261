import type { ProblemJson } from '../../src/admin/api/instance-types.ts'
import { formatCount } from '../format.ts'
import { Panel } from '../parts/panel.tsx'
import { Ago } from '../parts/time.tsx'

/** Lists current problems, oldest first. */
export function Problems({ problems }: { readonly problems: readonly ProblemJson[] }) {
  return (
    <Panel title={formatCount(problems.length, 'problem')} aside="reported by the log and not resolved" isWide>
      <ul class="problems">
        {problems.map(({ code, message, since }) => (
          <li key={`${code} ${since} ${message}`}>
            <span class="bad mono">
              <span aria-hidden="true">✕ </span>
              {code}
            </span>{' '}
            <span>{message}</span>{' '}
            <span class="quiet">
              since <Ago at={since} />
            </span>
          </li>
        ))}
      </ul>
    </Panel>
  )
}
