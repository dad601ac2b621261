import type { ComponentChildren } from 'preact'

export type Tone = 'good' | 'warn' | 'bad' | 'quiet' | 'accent'

/** Beside the colour, for those who do not see it. */
const SIGNS: Readonly<Record<Tone, string>> = { good: '✓', warn: '!', bad: '✕', quiet: '', accent: '' }

interface BadgeProps {
  readonly tone: Tone
  /** In place of the tone's own. */
  readonly sign?: string
  readonly children: ComponentChildren
}

/** A state in one or two words. */
export function Badge({ tone, sign = SIGNS[tone], children }: BadgeProps) {
  return (
    <span class={`badge ${tone}`}>
      {sign !== '' && <span aria-hidden="true">{sign} </span>}
      {children}
    </span>
  )
}
