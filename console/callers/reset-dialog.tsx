import type { CountersJson, ResetRequest } from '../../src/admin/api/types.ts'
import { ask } from '../api.ts'
import type { RuleCaller } from '../caller-values.ts'
import { ReasonField, readReason } from '../overrides/reason-field.tsx'
import { ConfirmDialog } from '../parts/confirm-dialog.tsx'

interface ResetDialogProps {
  /** With credentials themselves: a counter is not found by a digest. */
  readonly caller: RuleCaller
  readonly onReset: (counters: CountersJson) => void
  readonly onClose: () => void
}

/** Asks for a reason, and makes the counters of a caller full. */
export function ResetDialog({ caller: { policy, rule, values }, onReset, onClose }: ResetDialogProps) {
  const reset = async (form: FormData): Promise<void> => {
    onReset(await ask<CountersJson>('POST', 'counters/reset', { policy, rule, values, reason: readReason(form) } satisfies ResetRequest))
  }
  return (
    <ConfirmDialog title="Make these counters full?" action="Reset" isDangerous onConfirm={reset} onClose={onClose}>
      <p>
        The caller starts again with full counters of {policy} · {rule}.
      </p>
      <ReasonField isFirst />
    </ConfirmDialog>
  )
}
