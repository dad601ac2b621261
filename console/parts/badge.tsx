import type { ComponentChildren } from 'preact'

export type Tone = 'good' | 'warn' | 'bad' | 'quiet' | 'accent'

/** Signs that repeat the meaning of the colour for those who cannot see it. */
const SIGNS: Readonly<Record<Tone, string>> = { good: '✓', warn: '!', bad: '✕', quiet: '', accent: '' }

interface BadgeProps {
  readonly tone: Tone
  /** Replaces the tone's own sign. */
  readonly sign?: string
  readonly children: ComponentChildren
}

/** Shows a state in one or two words. */
export function Badge({ tone, sign = SIGNS[tone], children }: BadgeProps) {
  return (
    <span class={`badge ${tone}`}>
      {sign !== '' && <span aria-hidden="true">{sign} </span>}
      {children}
    </span>
  )
}
