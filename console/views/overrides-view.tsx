import { useSignal } from '@preact/signals'
import { useMemo } from 'preact/hooks'
import type { OverrideHistory as History, OverrideJson, Overrides } from '../../src/admin/api/types.ts'
import { usePoll } from '../live.ts'
import { address } from '../navigation.ts'
import { draft, NO_DRAFT, type OverrideDraft } from '../overrides/draft.ts'
import { EditOverride } from '../overrides/edit-override.tsx'
import { EndOverride } from '../overrides/end-override.tsx'
import { Enforcement } from '../overrides/enforcement.tsx'
import { ExtendOverride } from '../overrides/extend-override.tsx'
import { OverrideForm } from '../overrides/override-form.tsx'
import { OverrideHistory } from '../overrides/override-history.tsx'
import { type OverrideAction, OverrideList } from '../overrides/override-list.tsx'
import { ChangeButton } from '../parts/change-button.tsx'
import { useFocusAfter } from '../parts/focus-after.ts'
import { Notice } from '../parts/notice.tsx'
import { Panel } from '../parts/panel.tsx'
import { status, statusPoll } from '../status.ts'

/** What has ended changes only when something ends, which this page mostly knows of itself. */
const HISTORY_MS = 10_000

/** Shows what operators have changed temporarily, and lets them set, edit, extend and end overrides. */
export function OverridesView() {
  const poll = usePoll<Overrides>('overrides')
  const history = usePoll<History>('overrides/history', HISTORY_MS)
  const begun = useSignal(useMemo(takeDraft, []))
  const acting = useSignal<{ readonly action: OverrideAction; readonly override: OverrideJson } | undefined>(undefined)
  const outcome = useSignal('')
  const overrides = poll.data.value?.overrides
  const named = address.value.parameters.get('id')
  const tell = async (sentence: string): Promise<void> => {
    await Promise.all([poll.refresh(), history.refresh(), statusPoll.refresh()])
    outcome.value = sentence
  }
  const act = (action: OverrideAction, override: OverrideJson): void => {
    outcome.value = ''
    acting.value = { action, override }
  }
  const close = (): void => {
    acting.value = undefined
  }
  const { action, override: chosen } = acting.value ?? {}
  useFocusAfter(begun.value !== undefined || action !== undefined)
  return (
    <>
      <div role="status">{outcome.value !== '' && <Notice tone="good">{outcome}</Notice>}</div>
      <div class="bar">
        {begun.value === undefined && (
          <ChangeButton
            class="primary"
            onClick={() => {
              outcome.value = ''
              begun.value = NO_DRAFT
            }}
          >
            New override
          </ChangeButton>
        )}
        {overrides !== undefined && <Enforcement shadowAll={overrides.find(({ shadow_all }) => shadow_all)} onStopped={tell} onAct={act} />}
      </div>
      {begun.value !== undefined && (
        <Panel title="New override">
          <OverrideForm
            draft={begun.value}
            onMade={async (sentence) => {
              await tell(sentence)
              begun.value = undefined
            }}
            onCancel={() => (begun.value = undefined)}
          />
        </Panel>
      )}
      <Panel title="In effect" aside={overrides?.some(({ durable }) => !durable) ? notSaved() : undefined} isWide>
        {overrides !== undefined && <OverrideList overrides={overrides} named={named} onAct={act} />}
        {poll.failure.value !== undefined && <Notice tone="bad">{poll.failure.value.message}</Notice>}
      </Panel>
      <OverrideHistory poll={history} named={named} />
      {action === 'extend' && <ExtendOverride override={chosen!} onExtended={tell} onClose={close} />}
      {action === 'edit' && <EditOverride override={chosen!} onEdited={tell} onClose={close} />}
      {action === 'end' && <EndOverride override={chosen!} onEnded={tell} onClose={close} />}
    </>
  )
}

function notSaved(): string {
  const cause = status.value?.state_file ? 'the state file was not written since' : 'there is no state file and no Redis'
  return `A restart ends those that are not saved: ${cause}.`
}

/** Returns what another view asked for, only once, or the policy and the rule in the address. */
function takeDraft(): OverrideDraft | undefined {
  const taken = draft.peek()
  if (taken !== undefined) {
    draft.value = undefined
    return taken
  }
  const { parameters } = address.peek()
  const policy = parameters.get('policy')
  return policy === null ? undefined : { policy, rule: parameters.get('rule') ?? '', values: undefined }
}
