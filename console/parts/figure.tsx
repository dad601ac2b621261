import type { ComponentChildren } from 'preact'
import type { Tone } from './badge.tsx'

interface FigureProps {
  readonly label: string
  /** The formatted value; undefined while it is not known. */
  readonly value: ComponentChildren
  readonly unit?: string
  readonly tone?: Tone
  /** The reference of the value, or since when it is counted. */
  readonly note?: ComponentChildren
}

/** A row of numbers. */
export function Figures({ children }: { readonly children: ComponentChildren }) {
  return <dl class="figures">{children}</dl>
}

/** One number with its unit; must be inside `Figures`. */
export function Figure({ label, value, unit, tone, note }: FigureProps) {
  return (
    <div class={tone === undefined ? 'figure' : `figure ${tone}`}>
      <dt>{label}</dt>
      <dd>
        <span class="value">{value ?? '–'}</span>
        {unit !== undefined && <span class="unit"> {unit}</span>}
        {note !== undefined && <span class="note">{note}</span>}
      </dd>
    </div>
  )
}
