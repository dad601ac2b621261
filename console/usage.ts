import type { UsageJson } from '../src/admin/api/instance-types.ts'
import { type Poll, usePoll } from './live.ts'

/** Budgets change with each response, but nobody needs them every two seconds. */
const USAGE_MS = 5000

export function useUsage(): Poll<UsageJson> {
  return usePoll<UsageJson>('usage', USAGE_MS)
}
