import { EmptyState } from '../parts/empty-state.tsx'

export function OverridesView() {
  return <EmptyState>Nothing to show yet.</EmptyState>
}
