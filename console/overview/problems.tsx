import type { ProblemJson } from '../../src/admin/api/instance-types.ts'
import { formatCount } from '../format.ts'
import { addressOf } from '../navigation.ts'
import { Panel } from '../parts/panel.tsx'
import { Ago } from '../parts/time.tsx'
import { placeOf } from './problem-places.ts'

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
            </span>{' '}
            <Place code={code} />
          </li>
        ))}
      </ul>
    </Panel>
  )
}

/** The documentation may be anywhere, so its section is named rather than linked. */
function Place({ code }: Pick<ProblemJson, 'code'>) {
  const { view, section } = placeOf(code)
  return (
    <span class="quiet">
      {view !== undefined && (
        <>
          <a href={addressOf(view)}>{view}</a> ·{' '}
        </>
      )}
      runbook: {section}
    </span>
  )
}
