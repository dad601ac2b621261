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

export interface ModelReject {
  readonly rule: 'bucket' | 'quota'
  readonly caller: string
}

/** What becomes of requests, by arithmetic of its own. They come in the order of their times. */
export class LimitModel {
  readonly #limits: ModelLimits
  readonly #buckets = new Map<string, { readonly level: number; readonly atMs: number }>()
  /** By minute and caller. */
  readonly #used = new Map<string, number>()

  constructor(limits: ModelLimits) {
    this.#limits = limits
  }

  /** Undefined where it is allowed. */
  decide({ timeMs, uri, headers }: Logged): ModelReject | undefined {
    if (!uri.startsWith('/api')) return undefined
    const { tokensPerSecond, burst, quota } = this.#limits
    const [key, agent] = [headers?.['referer'], headers?.['user-agent']]
    const bucket = key === undefined ? undefined : (this.#buckets.get(key) ?? { level: burst, atMs: timeMs })
    const level = bucket && Math.min(burst, bucket.level + ((timeMs - bucket.atMs) / 1000) * tokensPerSecond)
    const minute = Math.floor(timeMs / MINUTE_MS)
    const window = `${minute} ${agent}`
    const bucketWaitMs = level === undefined ? 0 : (Math.max(0, 1 - level) / tokensPerSecond) * 1000
    const used = this.#used.get(window) ?? 0
    const quotaWaitMs = agent !== undefined && used >= quota ? (minute + 1) * MINUTE_MS - timeMs : 0
    if (bucketWaitMs > 0 || quotaWaitMs > 0) {
      return bucketWaitMs >= quotaWaitMs ? { rule: 'bucket', caller: key! } : { rule: 'quota', caller: agent! }
    }
    if (key !== undefined) this.#buckets.set(key, { level: level! - 1, atMs: timeMs })
    if (agent !== undefined) this.#used.set(window, used + 1)
    return undefined
  }
}
