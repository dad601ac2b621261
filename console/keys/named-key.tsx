import type { KeyJson } from '../../src/admin/api/key-types.ts'
import { ask } from '../api.ts'
import { useLoaded } from '../loaded.ts'
import { KeyEnd, KeyLabels, KeyLink, KeyStateBadge } from './key-facts.tsx'

/** Says in the view of a caller which issued key it is known by, and whether that key is still of use. */
export function NamedKey({ id }: { readonly id: string }) {
  const { data, failure } = useLoaded<KeyJson>(id, () => ask<KeyJson>('GET', `keys/${id}`))
  const found = data.value
  return (
    <div>
      Issued key <KeyLink id={id} /> {found !== undefined && <KeyStateBadge keyJson={found} />}
      {found !== undefined && found.expires_at !== null && (
        <span class="quiet">
          {' '}
          expires <KeyEnd end={found.expires_at} />
        </span>
      )}
      {found !== undefined && <KeyLabels labels={found.labels} />}
      {failure.value !== undefined && <p class="quiet">{failure}</p>}
    </div>
  )
}
