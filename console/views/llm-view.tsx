import { EmptyState } from '../parts/empty-state.tsx'

export function LlmView() {
  return <EmptyState>Nothing to show yet.</EmptyState>
}
