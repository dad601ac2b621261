import { EmptyState } from '../parts/empty-state.tsx'

export function CallersView() {
  return <EmptyState>Nothing to show yet.</EmptyState>
}
