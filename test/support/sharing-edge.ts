import type { Edge, EdgeOptions } from './edge.ts'
import type { Answer } from './http.ts'
import type { RedisServer } from './redis-server.ts'
import { type Owner, running, thisTest } from './running.ts'

/** So few tokens a second that none comes back while a test runs. */
export const HARDLY_ANY = 0.0001

/** So long that no machine is so busy: for tests in which Redis is not late on purpose. */
const AMPLE_MS = 3000

/** An instance in this process with its counters in Redis, for as long as the test runs. */
export function sharing(url: string, options: EdgeOptions, owner: Owner = thisTest): Promise<Edge> {
  const env = { EDGE_REDIS_URL: url, EDGE_REDIS_TIMEOUT_MS: String(AMPLE_MS), ...options.env }
  return running({ ...options, env }, owner)
}

/** Two of them that differ in nothing but their place. */
export function twoSharing(url: string, options: EdgeOptions, owner: Owner = thisTest): Promise<[Edge, Edge]> {
  return Promise.all([sharing(url, options, owner), sharing(url, options, owner)])
}

/** What each asked instance says of the limit that binds it. */
export function remaining({ headers }: Answer): number {
  return Number(headers['ratelimit-remaining'])
}

export function admitted(answers: readonly (Answer | number)[]): number {
  return answers.filter((answer) => (typeof answer === 'number' ? answer : answer.status) === 200).length
}

/** Who answered questions about counters so far. */
export async function answersBy(edge: Edge): Promise<{ redis: number; failureMode: number }> {
  return {
    redis: await edge.metric('edge_redis_answers_total{by="redis"}'),
    failureMode: await edge.metric('edge_redis_answers_total{by="failure_mode"}'),
  }
}

/** Whether all circuits are closed, as it tells itself. */
export async function hasRedis(edge: Edge): Promise<boolean> {
  return (JSON.parse((await edge.get('/readyz')).body) as { redis: string }).redis === 'connected'
}

/** The counters that are there, without what probes leave for a millisecond. */
export async function countersIn(redis: RedisServer): Promise<string[]> {
  const keys = (await redis.command('KEYS', '*')) as readonly string[]
  return keys.filter((key) => !key.includes('probe:')).sort()
}

/** What a bucket holds, as Redis has it. */
export async function storedBucket(redis: RedisServer, key: string): Promise<{ level: number; atMs: number; expiresMs: number }> {
  const script = `local level, at = struct.unpack('<dd', redis.call('GET', KEYS[1]))
    return { string.format('%.17g', level), string.format('%.17g', at), redis.call('PEXPIRETIME', KEYS[1]) }`
  const [level, atMs, expiresMs] = (await redis.command('EVAL', script, 1, key)) as readonly (string | number)[]
  return { level: Number(level), atMs: Number(atMs), expiresMs: Number(expiresMs) }
}
