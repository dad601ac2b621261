import { availableParallelism } from 'node:os'
export function availableCores(): number {
  return availableParallelism()
}
