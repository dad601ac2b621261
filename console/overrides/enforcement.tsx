import { useSignal } from '@preact/signals'
import type { OverrideJson, OverrideRequestJson } from '../../src/admin/api/types.ts'
import { ApiFailure, ask } from '../api.ts'
import { formatCount } from '../format.ts'
import { ChangeButton } from '../parts/change-button.tsx'
import { ConfirmDialog } from '../parts/confirm-dialog.tsx'
import { Notice } from '../parts/notice.tsx'
import { Until } from '../parts/time.tsx'
import { printable } from '../printable.ts'
import { status } from '../status.ts'
import type { OverrideAction } from './override-list.tsx'
import { ReasonField, readReason } from './reason-field.tsx'
import { readUntil, UntilField } from './until-field.tsx'

interface EnforcementProps {
  /** The override that suspends enforcement, if there is one. */
  readonly shadowAll: OverrideJson | undefined
  readonly onStopped: (sentence: string) => Promise<void>
  readonly onAct: (action: OverrideAction, override: OverrideJson) => void
}

/** The emergency switch: nothing is enforced, but everything is still counted. */
export function Enforcement({ shadowAll, onStopped, onAct }: EnforcementProps) {
  const isAsking = useSignal(false)
  if (shadowAll !== undefined) {
    return (
      <Notice tone="warn">
        <p>
          <strong>Nothing is enforced.</strong> Policies only record what they would reject, until <Until until={shadowAll.until} />.{' '}
          {printable(shadowAll.actor)}: {printable(shadowAll.reason)}
        </p>
        <ChangeButton onClick={() => onAct('end', shadowAll)}>Enforce again…</ChangeButton>
      </Notice>
    )
  }
  return (
    <>
      <ChangeButton class="danger" onClick={() => (isAsking.value = true)}>
        Stop enforcing…
      </ChangeButton>
      {isAsking.value && <StopDialog onStopped={onStopped} onClose={() => (isAsking.value = false)} />}
    </>
  )
}

interface StopDialogProps {
  readonly onStopped: (sentence: string) => Promise<void>
  readonly onClose: () => void
}

function StopDialog({ onStopped, onClose }: StopDialogProps) {
  const problem = useSignal<string | undefined>(undefined)
  const stop = async (form: FormData): Promise<void> => {
    problem.value = undefined
    try {
      const body: OverrideRequestJson = { shadow_all: true, until: readUntil(form), reason: readReason(form) }
      await ask('POST', 'overrides', body)
    } catch (error) {
      if (error instanceof ApiFailure && error.code === 'bad_until') problem.value = error.message
      throw error
    }
    await onStopped('Nothing is enforced now.')
  }
  return (
    <ConfirmDialog title="Stop enforcing all policies?" action="Stop enforcing" isDangerous onConfirm={stop} onClose={onClose}>
      <p>
        No request of any caller is rejected by a limit or a block any more, of{' '}
        {formatCount(status.value?.bundle?.policies ?? 0, 'policy', 'policies')}. They go on counting, and record what they would reject.
      </p>
      <UntilField error={problem.value} />
      <ReasonField />
    </ConfirmDialog>
  )
}
