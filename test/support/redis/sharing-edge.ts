import type { Edge, EdgeOptions } from '../service/edge.ts'
import { type Answer, ask } from '../service/http.ts'
import { type Owner, running, thisTest } from '../service/running.ts'
import { HeldDeadlines } from './held-deadlines.ts'

/** So few tokens a second that none comes back while a test runs. */
export const HARDLY_ANY = 0.0001

/** Of instances whose deadlines are not held: so long that no machine is so busy. */
export const AMPLE_TIMEOUT = { EDGE_REDIS_TIMEOUT_MS: '60000' }

/**
 * An instance in this process with its counters in Redis, for as long as the test runs. It starts when Redis has answered, and waits for
 * every answer as long as it takes. A test in which Redis is silent on purpose brings `redisDeadlines`, or sets EDGE_REDIS_TIMEOUT_MS,
 * which passes in real time.
 */
export function sharing(url: string, options: EdgeOptions, owner: Owner = thisTest): Promise<Edge> {
  const isHeld = options.env?.['EDGE_REDIS_TIMEOUT_MS'] === undefined
  const held = isHeld ? { redisDeadlines: new HeldDeadlines() } : {}
  return running({ ...held, ...options, env: { EDGE_REDIS_URL: url, ...AMPLE_TIMEOUT, ...options.env } }, owner)
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

/** Whether all circuits are closed, as an instance tells itself, in this process or in one of its own. */
export async function hasRedis({ port }: { readonly port: number }): Promise<boolean> {
  return (JSON.parse((await ask(port, 'GET', '/readyz')).body) as { redis: string }).redis === 'connected'
}
