import type { Logged } from './log-writers.ts'

/** A bucket by Referer and a quota a minute by User-Agent, in one policy. Rates are fractions of two, so that no number is rounded. */
export interface ModelLimits {
  readonly tokensPerSecond: number
  readonly burst: number
  readonly quota: number
}

export function modelPolicy({ tokensPerSecond, burst, quota }: ModelLimits): object {
  const bucket = { tokens_per_second: tokensPerSecond, burst }
  return {
    id: 'api',
    spec: {
      selector: { pathPrefix: '/api' },
      rules: [
        { name: 'bucket', limit_keys: ['header:referer'], algorithm: 'token_bucket', algorithm_config: bucket },
        { name: 'quota', limit_keys: ['header:user-agent'], algorithm: 'fixed_window', algorithm_config: { limit: quota, period: '1m' } },
      ],
    },
  }
}

const MINUTE_MS = 60_000

/** What becomes of each request, by arithmetic of its own: undefined where it is allowed, else the rule and the caller. */
export function modelVerdicts(requests: readonly Logged[], limits: ModelLimits): ({ rule: string; caller: string } | undefined)[] {
  const buckets = new Map<string, { level: number; atMs: number }>()
  const used = new Map<string, number>()
  return requests.map(({ timeMs, uri, headers }) => {
    if (!uri.startsWith('/api')) return undefined
    const [key, agent] = [headers?.['referer'], headers?.['user-agent']]
    const bucket = key === undefined ? undefined : (buckets.get(key) ?? { level: limits.burst, atMs: timeMs })
    const level = bucket && Math.min(limits.burst, bucket.level + ((timeMs - bucket.atMs) / 1000) * limits.tokensPerSecond)
    const minute = Math.floor(timeMs / MINUTE_MS)
    const window = `${minute} ${agent}`
    const bucketWaitMs = level === undefined ? 0 : (Math.max(0, 1 - level) / limits.tokensPerSecond) * 1000
    const quotaWaitMs = agent !== undefined && (used.get(window) ?? 0) >= limits.quota ? (minute + 1) * MINUTE_MS - timeMs : 0
    if (bucketWaitMs > 0 || quotaWaitMs > 0) {
      return bucketWaitMs >= quotaWaitMs ? { rule: 'bucket', caller: key! } : { rule: 'quota', caller: agent! }
    }
    if (key !== undefined) buckets.set(key, { level: level! - 1, atMs: timeMs })
    if (agent !== undefined) used.set(window, (used.get(window) ?? 0) + 1)
    return undefined
  })
}
