import type { ComponentChildren } from 'preact'

/** Says that there is nothing to show, and why, or how to change that. */
export function EmptyState({ children }: { readonly children: ComponentChildren }) {
  return <p class="empty">{children}</p>
}
