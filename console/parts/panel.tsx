import type { ComponentChildren } from 'preact'
import { useId } from 'preact/hooks'

interface PanelProps {
  readonly title: string
  /** Beside the title: a unit, a link, a filter. */
  readonly aside?: ComponentChildren
  readonly children: ComponentChildren
  /** As wide as the view, beside no other panel. */
  readonly isWide?: boolean
}

/** A part of a view with a heading of its own. Panels stand beside each other in a `div` of class `panels`. */
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
