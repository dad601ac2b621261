import type { OverrideJson } from '../../src/admin/api/types.ts'
import { ApiFailure, ask } from '../api.ts'
import { ConfirmDialog } from '../parts/confirm-dialog.tsx'
import { changeText, limitsText } from './change-words.ts'
import { Subject } from './override-facts.tsx'
import { ReasonField, readReason } from './reason-field.tsx'

interface EndOverrideProps {
  readonly override: OverrideJson
  /** Called with a sentence that describes the outcome. */
  readonly onEnded: (sentence: string) => Promise<void>
  readonly onClose: () => void
}

/** Asks for a reason, then ends an override. */
export function EndOverride({ override, onEnded, onClose }: EndOverrideProps) {
  const end = async (form: FormData): Promise<void> => {
    await onEnded(await endOverride(override.id, readReason(form)))
  }
  const isAll = override.shadow_all === true
  return (
    <ConfirmDialog
      title={isAll ? 'Enforce all policies again?' : 'End this override?'}
      action={isAll ? 'Enforce again' : 'End it'}
      isDangerous
      onConfirm={end}
      onClose={onClose}
    >
      <div>
        <strong>{changeText(override)}</strong>
        <p>
          <Subject override={override} />
        </p>
      </div>
      <p>
        {isAll
          ? 'Every policy rejects again what is above its limits.'
          : `The limit of the bundle counts again${override.before === null ? '' : `: ${limitsText(override.before)}`}. What was spent stays spent.`}
      </p>
      <ReasonField isFirst />
    </ConfirmDialog>
  )
}

/** If somebody else has ended the override or it has expired, the operator's aim is already reached. */
async function endOverride(id: string, reason: string): Promise<string> {
  try {
    await ask('DELETE', `overrides/${id}?reason=${encodeURIComponent(reason)}`)
    return 'The override has ended.'
  } catch (error) {
    if (error instanceof ApiFailure && error.code === 'unknown_override') return 'The override had ended already.'
    throw error
  }
}
