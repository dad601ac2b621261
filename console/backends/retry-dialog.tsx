import type { BackendJson, RetryRequest } from '../../src/admin/api/backend-types.ts'
import { ask } from '../api.ts'
import { ReasonField, readReason } from '../overrides/reason-field.tsx'
import { ConfirmDialog } from '../parts/confirm-dialog.tsx'

interface RetryDialogProps {
  readonly name: string
  readonly onRetried: (backend: BackendJson) => void
  readonly onClose: () => void
}

/** Asks for a reason, and has a backend tried by the next request instead of at its deadline. */
export function RetryDialog({ name, onRetried, onClose }: RetryDialogProps) {
  const retry = async (form: FormData): Promise<void> => {
    const path = `backends/${encodeURIComponent(name)}/retry`
    onRetried(await ask<BackendJson>('POST', path, { reason: readReason(form) } satisfies RetryRequest))
  }
  return (
    <ConfirmDialog title={`Try ${name} now?`} action="Try now" onConfirm={retry} onClose={onClose}>
      <p>
        The next request goes to it, at this instance. Until it has responded properly, one request at a time tries it, and the others go to
        the other backends of their routes.
      </p>
      <ReasonField isFirst />
    </ConfirmDialog>
  )
}
