import { useSignal } from '@preact/signals'
import { useMemo } from 'preact/hooks'
import type { OverrideJson, Overrides } from '../../src/admin/api/types.ts'
import { usePoll } from '../live.ts'
import { address } from '../navigation.ts'
import { draft, type OverrideDraft } from '../overrides/draft.ts'
import { EndOverride } from '../overrides/end-override.tsx'
import { Enforcement } from '../overrides/enforcement.tsx'
import { OverrideForm } from '../overrides/override-form.tsx'
import { OverrideList } from '../overrides/override-list.tsx'
import { Notice } from '../parts/notice.tsx'
import { Panel } from '../parts/panel.tsx'
import { status, statusPoll } from '../status.ts'

/** Shows what operators have changed temporarily, and lets them create and end overrides. */
export function OverridesView() {
  const poll = usePoll<Overrides>('overrides')
  const begun = useSignal(useMemo(takeDraft, []))
  const ending = useSignal<OverrideJson | undefined>(undefined)
  const outcome = useSignal('')
  const overrides = poll.data.value?.overrides
  const tell = async (sentence: string): Promise<void> => {
    await Promise.all([poll.refresh(), statusPoll.refresh()])
    outcome.value = sentence
  }
  const endOne = (override: OverrideJson): void => {
    outcome.value = ''
    ending.value = override
  }
  return (
    <>
      <div role="status">{outcome.value !== '' && <Notice tone="good">{outcome}</Notice>}</div>
      <div class="bar">
        {begun.value === undefined && (
          <button
            type="button"
            class="primary"
            onClick={() => {
              outcome.value = ''
              begun.value = NOTHING
            }}
          >
            New override
          </button>
        )}
        {overrides !== undefined && (
          <Enforcement shadowAll={overrides.find(({ shadow_all }) => shadow_all)} onStopped={tell} onEnd={endOne} />
        )}
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
      <Panel title="In effect" aside={overrides?.some(({ durable }) => !durable) ? notSaved() : undefined}>
        {overrides !== undefined && <OverrideList overrides={overrides} onEnd={endOne} />}
        {poll.failure.value !== undefined && <Notice tone="bad">{poll.failure.value.message}</Notice>}
      </Panel>
      {ending.value !== undefined && <EndOverride override={ending.value} onEnded={tell} onClose={() => (ending.value = undefined)} />}
    </>
  )
}

function notSaved(): string {
  const cause = status.value?.state_file ? 'the state file was not written since' : 'there is no state file and no Redis'
  return `A restart ends those that are not saved: ${cause}.`
}

const NOTHING: OverrideDraft = { policy: '', rule: '', values: undefined }

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
