import type { ComponentChildren } from 'preact'
import type { Tone } from './badge.tsx'

interface NoticeProps {
  readonly tone: Tone
  readonly children: ComponentChildren
  /** Whether screen readers read it out at once: for what the operator has just caused. */
  readonly isUrgent?: boolean
}

/** A sentence that stands out. */
export function Notice({ tone, children, isUrgent = false }: NoticeProps) {
  return (
    <div class={`notice ${tone}`} role={isUrgent ? 'alert' : undefined}>
      {children}
    </div>
  )
}
