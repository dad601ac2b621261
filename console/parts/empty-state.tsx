import type { ComponentChildren } from 'preact'

/** There is nothing to show, and why, or how to get something. */
export function EmptyState({ children }: { readonly children: ComponentChildren }) {
  return <p class="empty">{children}</p>
}
