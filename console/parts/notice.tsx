import type { ComponentChildren } from 'preact'
import type { Tone } from './badge.tsx'

interface NoticeProps {
  readonly tone: Tone
  readonly children: ComponentChildren
  /** Whether screen readers announce it at once, which is for results of the operator's own action. */
  readonly isUrgent?: boolean
}

/** Shows a highlighted sentence. */
export function Notice({ tone, children, isUrgent = false }: NoticeProps) {
  return (
    <div class={`notice ${tone}`} role={isUrgent ? 'alert' : undefined}>
      {children}
    </div>
  )
}
