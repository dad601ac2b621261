import { EmptyState } from '../parts/empty-state.tsx'

export function BundleView() {
  return <EmptyState>Nothing to show yet.</EmptyState>
}
