import type { ComponentChildren } from 'preact'
import { useId, useLayoutEffect, useRef } from 'preact/hooks'
import { Form } from './form.tsx'

interface ConfirmDialogProps {
  readonly title: string
  /** Label of the button that confirms. */
  readonly action: string
  readonly isDangerous?: boolean
  /** Whether the button that cancels has the focus at first, so that a key pressed too often does no harm. */
  readonly isCancelFirst?: boolean
  /** Whether the dialog stays open when the action is done, because another one follows it. */
  readonly staysOpen?: boolean
  /** A description of what will happen, and the fields that are needed. */
  readonly children: ComponentChildren
  /** If it throws, the error is shown and the dialog stays open. */
  readonly onConfirm: (values: FormData) => Promise<void>
  /** Called when the action is done, or the dialog is cancelled or closed with Escape. */
  readonly onClose: () => void
}

/** Asks before something is changed. The dialog is open for as long as it is rendered. */
export function ConfirmDialog({
  title,
  action,
  isDangerous = false,
  isCancelFirst = false,
  staysOpen = false,
  children,
  onConfirm,
  onClose,
}: ConfirmDialogProps) {
  const id = useId()
  const dialog = useRef<HTMLDialogElement>(null)
  useLayoutEffect(() => dialog.current!.showModal(), [])
  return (
    <dialog ref={dialog} aria-labelledby={id} onClose={onClose}>
      <h2 id={id}>{title}</h2>
      <Form
        action={action}
        isDangerous={isDangerous}
        onSubmit={async (values) => {
          await onConfirm(values)
          if (!staysOpen) dialog.current?.close()
        }}
        aside={
          <button type="button" autofocus={isCancelFirst} onClick={() => dialog.current!.close()}>
            Cancel
          </button>
        }
      >
        {children}
      </Form>
    </dialog>
  )
}
