import type { ComponentChildren } from 'preact'
import { useId } from 'preact/hooks'

interface PanelProps {
  readonly title: string
  /** Shown beside the title: a unit, a link or a filter. */
  readonly aside?: ComponentChildren
  readonly children: ComponentChildren
  /** Whether the panel takes the full width of the view. */
  readonly isWide?: boolean
}

/** A part of a view with its own heading. Panels are arranged in a `div` of class `panels`. */
export function Panel({ title, aside, children, isWide = false }: PanelProps) {
  const id = useId()
  return (
    <section class={isWide ? 'panel wide' : 'panel'} aria-labelledby={id}>
      <header>
        <h2 id={id}>{title}</h2>
        {aside !== undefined && <div class="aside">{aside}</div>}
      </header>
      {children}
    </section>
  )
}
