import type { KnownCallers } from '../../src/admin/api/caller-types.ts'
import { type Poll, usePoll } from '../live.ts'
import { addressOf } from '../navigation.ts'
import { Notice } from '../parts/notice.tsx'

/** It changes with the bundle alone. */
const KNOWN_MS = 10_000

/** Polls how the active bundle knows callers. */
export function useKnownCallers(): Poll<KnownCallers> {
  return usePoll<KnownCallers>('callers', KNOWN_MS)
}

/** Says that nobody reads issued keys, where that is so. */
export function UnreadKeys({ known }: { readonly known: KnownCallers | undefined }) {
  if (known === undefined || known.keys_from !== null) return null
  return (
    <Notice tone="warn">
      Keys can be issued, but nobody reads them yet:{' '}
      {known.bundle_version === null ? (
        'no bundle is active.'
      ) : (
        <>
          the <a href={addressOf('bundle')}>active bundle</a> has no <code>callers.keys</code>. Callers are known by their keys once it has
          one, such as <code>{'"callers": {"keys": {"from": ["bearer"]}}'}</code>.
        </>
      )}
    </Notice>
  )
}
