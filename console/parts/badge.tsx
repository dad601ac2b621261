import type { ComponentChildren } from 'preact'

export type Tone = 'good' | 'warn' | 'bad' | 'quiet' | 'accent'

/** Beside the colour, for those who do not see it. */
const SIGNS: Readonly<Record<Tone, string>> = { good: '✓', warn: '!', bad: '✕', quiet: '', accent: '' }

/** A state in one or two words. */
export function Badge({ tone, children }: { readonly tone: Tone; readonly children: ComponentChildren }) {
  const sign = SIGNS[tone]
  return (
    <span class={`badge ${tone}`}>
      {sign !== '' && <span aria-hidden="true">{sign} </span>}
      {children}
    </span>
  )
}
