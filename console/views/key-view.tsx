import { useSignal } from '@preact/signals'
import type { KeyJson } from '../../src/admin/api/key-types.ts'
import { draftKey } from '../keys/draft.ts'
import { ChangeKey, RevokeKey } from '../keys/key-actions.tsx'
import { KeyEnd, KeyLabels, KeyOrigin, KeyStateBadge, NOT_SAVED } from '../keys/key-facts.tsx'
import { CallerOfKey, KeyHistory, KeyLimits } from '../keys/key-limits.tsx'
import { UnreadKeys, useKnownCallers } from '../keys/known-callers.tsx'
import { usePoll } from '../live.ts'
import { address, addressOf } from '../navigation.ts'
import { ChangeButton } from '../parts/change-button.tsx'
import { Copyable } from '../parts/copyable.tsx'
import { EmptyState } from '../parts/empty-state.tsx'
import { Facts } from '../parts/facts.tsx'
import { useFocusAfter } from '../parts/focus-after.ts'
import { Notice } from '../parts/notice.tsx'
import { Panel } from '../parts/panel.tsx'
import { Moment } from '../parts/time.tsx'

const KEY_MS = 4000

/** Shows all that is known of one issued key, and lets operators change and revoke it. */
export function KeyView() {
  const id = address.value.parameters.get('id') ?? ''
  // Somebody may have put the key itself into the address: it is not asked for, and not shown.
  if (!/^[0-9a-f]{12}$/.test(id))
    return (
      <EmptyState>
        No key is chosen. The id of a key has twelve hexadecimal digits; <a href={addressOf('keys')}>Keys</a> lists them.
      </EmptyState>
    )
  return <OneKey key={id} id={id} />
}

function OneKey({ id }: { readonly id: string }) {
  const poll = usePoll<KeyJson>(`keys/${id}`, KEY_MS)
  const known = useKnownCallers().data.value
  const action = useSignal<'change' | 'revoke' | undefined>(undefined)
  const outcome = useSignal('')
  useFocusAfter(action.value !== undefined)
  const tell = async (sentence: string): Promise<void> => {
    await poll.refresh()
    outcome.value = sentence
  }
  const act = (chosen: 'change' | 'revoke'): void => {
    outcome.value = ''
    action.value = chosen
  }
  const close = (): void => {
    action.value = undefined
  }
  const found = poll.data.value
  return (
    <>
      <div role="status">{outcome.value !== '' && <Notice tone="good">{outcome}</Notice>}</div>
      {poll.failure.value !== undefined && (
        <Notice tone="bad" isUrgent>
          {poll.failure.value.message}
        </Notice>
      )}
      <UnreadKeys known={known} />
      {found !== undefined && (
        <>
          {!found.durable && <Notice tone="warn">This key is not saved. {NOT_SAVED}</Notice>}
          <Panel title={`Key ${id}`} aside={<a href={addressOf('keys')}>all keys</a>} isWide>
            <Facts
              facts={[
                ['Id', <Copyable name="id" text={id} />],
                ['State', <KeyStateBadge keyJson={found} />],
                ['Labels', <KeyLabels labels={found.labels} />],
                ['Expires', <KeyEnd end={found.expires_at} />],
                ['Created', <Moment at={found.created_at} withDate />],
                ['Why, and by whom', <KeyOrigin keyJson={found} />],
                ['Caller', <CallerOfKey keyJson={found} read={known?.labels ?? []} />],
              ]}
            />
            <div class="actions below">
              {found.status !== 'revoked' && (
                <>
                  <ChangeButton onClick={() => act('change')}>Change…</ChangeButton>
                  <ChangeButton class="danger" onClick={() => act('revoke')}>
                    Revoke…
                  </ChangeButton>
                </>
              )}
              <ChangeButton onClick={() => draftKey(found.labels)}>New key with these labels</ChangeButton>
            </div>
          </Panel>
          {known !== undefined && found.status === 'active' && <KeyLimits keyJson={found} read={known.labels} onReset={tell} />}
        </>
      )}
      <KeyHistory id={id} />
      {found !== undefined && action.value === 'change' && (
        <ChangeKey keyJson={found} suggested={known?.labels ?? []} onDone={tell} onClose={close} />
      )}
      {found !== undefined && action.value === 'revoke' && <RevokeKey keyJson={found} onDone={tell} onClose={close} />}
    </>
  )
}
