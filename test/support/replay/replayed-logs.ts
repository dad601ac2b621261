import type { Logged } from './log-writers.ts'

export const START = Date.parse('2026-01-01T00:00:00Z')

export function bucket(key: string, burst: number, extra: object = {}): object {
  const config = { tokens_per_second: 0.1, burst }
  return { name: `by-${key.split(':')[1]}`, limit_keys: [key], algorithm: 'token_bucket', algorithm_config: config, ...extra }
}

export function policy(id: string, rules: readonly object[], spec: object = {}): object {
  return { id, spec: { selector: { pathPrefix: '/api' }, rules, ...spec } }
}

/** So many requests of a caller at one moment. */
export function requests(key: string, seconds: number, count: number): Logged[] {
  return Array.from({ length: count }, () => ({ timeMs: START + seconds * 1000, uri: '/api/x', headers: { 'x-k': key } }))
}

/** Lets all pass that no other rule matches, so that nobody is warned of them. */
export const REST = { name: 'rest', match: 'else', algorithm: 'unlimited' }

export const A = [policy('api', [bucket('header:x-k', 5, { match: { 'header:x-k': '*' } }), REST])]
export const LOG = [...requests('a', 0, 7), ...requests('b', 1, 4), ...requests('a', 20, 3), { timeMs: START + 30_000, uri: '/other' }]
