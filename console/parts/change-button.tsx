import type { ComponentChildren } from 'preact'
import { isReadOnly } from '../session.ts'

interface ChangeButtonProps {
  readonly class?: 'primary' | 'danger'
  readonly onClick: () => void
  readonly children: ComponentChildren
}

/** A button that begins a change. Operators who may only look do not see it. */
export function ChangeButton({ class: kind, onClick, children }: ChangeButtonProps) {
  if (isReadOnly.value) return null
  return (
    <button type="button" {...(kind && { class: kind })} onClick={onClick}>
      {children}
    </button>
  )
}
