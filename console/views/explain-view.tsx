import { EmptyState } from '../parts/empty-state.tsx'

export function ExplainView() {
  return <EmptyState>Nothing to show yet.</EmptyState>
}
