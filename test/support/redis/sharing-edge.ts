import type { Edge, EdgeOptions } from '../service/edge.ts'
import type { Answer } from '../service/http.ts'
import { type Owner, running, thisTest } from '../service/running.ts'

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
