import { useSignal } from '@preact/signals'
import { useMemo } from 'preact/hooks'
import type { KeyLabelsJson, NewKey } from '../../src/admin/api/key-types.ts'
import { takeDraftedKey } from '../keys/draft.ts'
import { KeyLink } from '../keys/key-facts.tsx'
import { IssuedDialog, KeyForm } from '../keys/key-form.tsx'
import { KeyList } from '../keys/key-list.tsx'
import { KeySearch } from '../keys/key-search.tsx'
import { UnreadKeys, useKnownCallers } from '../keys/known-callers.tsx'
import { ChangeButton } from '../parts/change-button.tsx'
import { useFocusAfter } from '../parts/focus-after.ts'
import { Notice } from '../parts/notice.tsx'
import { Panel } from '../parts/panel.tsx'

/** Lists the keys that were issued, and issues more. */
export function KeysView() {
  const known = useKnownCallers().data.value
  const begun = useSignal<KeyLabelsJson | undefined>(useMemo(takeDraftedKey, []))
  /** It has the key itself, and is forgotten when the dialog closes. */
  const issued = useSignal<NewKey | undefined>(undefined)
  const issuedId = useSignal<string | undefined>(undefined)
  const labels = useSignal<KeyLabelsJson>({})
  const generation = useSignal(0)
  useFocusAfter(begun.value !== undefined || issued.value !== undefined)
  const noteIssued = (key: NewKey): void => {
    issued.value = key
    begun.value = undefined
    generation.value++
  }
  const forget = (): void => {
    issuedId.value = issued.peek()?.id
    issued.value = undefined
  }
  return (
    <>
      <div role="status">
        {issuedId.value !== undefined && (
          <Notice tone="good">
            Key <KeyLink id={issuedId.value} /> is issued. If nobody has copied it, revoke it and issue another one.
          </Notice>
        )}
      </div>
      <UnreadKeys known={known} />
      {begun.value === undefined ? (
        <div class="bar">
          <ChangeButton
            class="primary"
            onClick={() => {
              issuedId.value = undefined
              begun.value = {}
            }}
          >
            New key
          </ChangeButton>
        </div>
      ) : (
        <Panel title="New key">
          <KeyForm labels={begun.value} suggested={known?.labels ?? []} onIssued={noteIssued} onCancel={() => (begun.value = undefined)} />
        </Panel>
      )}
      <KeySearch labels={labels.value} onSearch={(next) => (labels.value = next)} onRefresh={() => generation.value++} />
      <KeyList
        key={JSON.stringify(labels.value)}
        labels={labels.value}
        generation={generation.value}
        onChoose={(name, value) => (labels.value = { ...labels.value, [name]: value })}
      />
      {issued.value !== undefined && <IssuedDialog issued={issued.value} onClose={forget} />}
    </>
  )
}
