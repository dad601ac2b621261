import type { ExplainedBackendJson, ExplainedCandidateJson } from '../../src/admin/api/types.ts'
import { formatNumber } from '../format.ts'
import { Badge } from '../parts/badge.tsx'
import { EmptyState } from '../parts/empty-state.tsx'
import { Facts } from '../parts/facts.tsx'
import { Panel } from '../parts/panel.tsx'
import { Moment } from '../parts/time.tsx'
import { printable } from '../printable.ts'

/** Shows which backends a request may be sent to by its route, and how they are. */
export function Destination({ backend: { route, sticky, candidates } }: { readonly backend: ExplainedBackendJson }) {
  if (route === null) {
    return (
      <Panel title="Where it goes" isWide>
        <EmptyState>
          No route covers this request: <code>EDGE_BACKEND_URL</code> gets it, if there is one.
        </EmptyState>
      </Panel>
    )
  }
  const isHeld = candidates.every(({ share }) => share === 0)
  return (
    <Panel title="Where it goes" aside={`routes[${route}]${sticky ? ', stick_to' : ''}`} isWide>
      <Facts facts={candidates.map((candidate) => [nameOf(candidate), <Candidate key={nameOf(candidate)} candidate={candidate} />])} />
      {isHeld && (
        <p>
          All of them cool, and another request tries one: 503 <code>backends_cooling</code>.
        </p>
      )}
    </Panel>
  )
}

/** A backend may be in a route several times, each time with another model. */
function nameOf({ name, model }: ExplainedCandidateJson): string {
  return model === null ? name : `${name}, model ${printable(model)}`
}

function Candidate({ candidate: { fallback, weight, state, reason, cooling_until: until, share } }: { candidate: ExplainedCandidateJson }) {
  return (
    <>
      {share > 0 && <Badge tone="good">{share === 1 ? 'next' : `next in ${formatNumber(Math.round(share * 100))} % of cases`}</Badge>}{' '}
      {fallback && 'fallback '}
      {!fallback && weight === 0 && 'gets nothing (weight 0) '}
      {state === 'cooling' && (
        <>
          <Badge tone="warn">cooling</Badge> ({reason}) until <Moment at={until!} />
        </>
      )}
      {state === 'probing' && (
        <>
          <Badge tone="warn">one request at a time tries it</Badge> ({reason})
        </>
      )}
    </>
  )
}
