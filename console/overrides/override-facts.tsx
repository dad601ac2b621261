import type { OverrideEditJson, OverrideJson } from '../../src/admin/api/types.ts'
import { addressOf } from '../navigation.ts'
import { Caller } from '../parts/caller.tsx'
import { Moment } from '../parts/time.tsx'
import { printable } from '../printable.ts'

interface SubjectProps {
  readonly override: Pick<OverrideJson, 'policy' | 'rule' | 'values'>
  /** Whether the policy is a link. A dialog has none, because following it would drop what was typed. */
  readonly isLinked?: boolean
}

/** Shows the callers to whom the override applies. */
export function Subject({ override: { policy, rule, values }, isLinked = false }: SubjectProps) {
  if (policy === undefined || rule === undefined) return <span>All policies</span>
  return (
    <>
      {isLinked ? <a href={addressOf('policies', { policy })}>{policy}</a> : policy} · {rule}
      {values ? <Caller values={values} /> : <p>all callers</p>}
    </>
  )
}

interface OriginProps {
  readonly override: {
    readonly actor: string
    readonly reason: string
    readonly created_at: string
    readonly edited: OverrideEditJson | null
  }
}

/** Shows who set an override, when and why, and who edited it last. */
export function Origin({ override: { actor, reason, created_at: createdAt, edited } }: OriginProps) {
  return (
    <>
      {printable(reason)}
      <p class="note">
        {printable(actor)}, <Moment at={createdAt} />
      </p>
      {edited !== null && (
        <p class="note">
          Edited by {printable(edited.actor)}, <Moment at={edited.at} />: {printable(edited.reason)}
        </p>
      )}
    </>
  )
}
