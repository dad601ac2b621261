import type { ActivityRange } from '../src/admin/api/instance-types.ts'

export interface TimeRange {
  readonly name: ActivityRange
  readonly label: string
  /** Completes a sentence such as `Nothing was rejected in …`. */
  readonly words: string
  readonly seconds: number
}

/** The ranges that charts can show. */
export const TIME_RANGES: readonly TimeRange[] = [
  { name: '15m', label: '15 min', words: 'the last 15 minutes', seconds: 900 },
  { name: '1h', label: '1 h', words: 'the last hour', seconds: 3600 },
  { name: '6h', label: '6 h', words: 'the last 6 hours', seconds: 21_600 },
  { name: '24h', label: '24 h', words: 'the last 24 hours', seconds: 86_400 },
]
