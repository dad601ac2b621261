import { expect, type TestContext } from 'vitest'
import { bucketRule, bundle, policy } from '../bundles/bundles.ts'
import { until } from '../until.ts'
import type { Edge } from './edge.ts'
import { running } from './running.ts'

const SECRET = 'a secret for tests'

/** Once it has told of the files that it was given. */
export async function start(t: TestContext, key: string, files: Readonly<Record<string, string>> = {}): Promise<Edge> {
  const edge = await running(
    { bundle: bundle(1, policy('p', { rules: [bucketRule('r', [key], 1000)] })), env: { ...files, EDGE_DEBUG_SESSION_SECRET: SECRET } },
    t,
  )
  const told = (): number => edge.logged('ip_file_loaded').length + edge.logged('ip_file_refused').length
  await until(() => told() === Object.keys(files).length)
  return edge
}

/** What a debug session shows of the one descriptor there is. */
export async function descriptor(
  edge: Edge,
  address: string,
  ...fields: readonly (readonly [string, string])[]
): Promise<string | undefined> {
  const login = await edge.post('/v1/debug/session', [['X-Edge-Debug-Secret', SECRET]])
  const cookie = login.headers['set-cookie']!.split(';')[0]!
  const answer = await edge.decide({ fields: [['X-Forwarded-For', address], ['Cookie', cookie], ...fields] })
  expect(answer).toMatchObject({ status: 200, headers: { 'x-edge-debug-decision': 'allow' } })
  return answer.headers['x-edge-debug-descriptor-1-value']
}
