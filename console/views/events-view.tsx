import { EmptyState } from '../parts/empty-state.tsx'

export function EventsView() {
  return <EmptyState>Nothing to show yet.</EmptyState>
}
