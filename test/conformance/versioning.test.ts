import { createHash } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../support/bundles/bundles.ts'
import { Edge } from '../support/service/edge.ts'
import { SECRET, SECRET_ENV } from './debug-login.ts'

/** Specification: Versioning. */

/** Tells which bundle is enforced by the size of its one limit. */
function sized(version: number | string, burst: number): object {
  return bundle(version, policy('p', { rules: [bucketRule('r', [], burst)] }))
}

let edge: Edge

beforeAll(async () => {
  edge = await Edge.start({ bundle: sized(10, 100), env: SECRET_ENV })
})

afterAll(() => edge.stop())

/** What is reported, and what is enforced. */
async function active(): Promise<unknown[]> {
  return [JSON.parse((await edge.get('/readyz')).body).policy_version, (await edge.decide()).headers['ratelimit-limit']]
}

test('[version-1] the decision and debug endpoints are under /v1, and not without it', async () => {
  const fields = [
    ['X-Edge-Debug-Secret', SECRET],
    ['X-Original-Method', 'GET'],
    ['X-Original-URI', '/'],
  ] as const
  const statuses = async (prefix: string) => {
    const answers = await Promise.all(['/decision', '/debug/session', '/debug/logout'].map((path) => edge.post(prefix + path, fields)))
    return answers.map(({ status }) => status)
  }
  expect(await statuses('/v1')).toEqual([200, 204, 204])
  expect(await statuses('')).toEqual([404, 404, 404])
  expect(await statuses('/v2')).toEqual([404, 404, 404])
})

test('[version-2] bundle_version must rise: a lower or the same one is refused, and what holds goes on holding', async () => {
  expect(await active()).toEqual(['10', '100'])
  await edge.publish(sized(9, 200))
  expect(await active()).toEqual(['10', '100'])
  await edge.publish(sized(10, 300))
  expect(await active()).toEqual(['10', '100'])
  const problems = edge.log.filter(({ event }) => event === 'bundle_refused').map((line) => line['problems'])
  expect(problems).toEqual([
    [expect.stringMatching(/^bundle_version: .*\(10\), got 9\. To go back,/)],
    [expect.stringMatching(/^bundle_version: .*\(10\), got 10\. To go back,/)],
  ])
})

test('[version-3] a higher bundle_version takes effect; higher as a number, not as a text', async () => {
  await edge.publish(sized(11, 400))
  expect(await active()).toEqual(['11', '400'])
  await edge.publish(sized(100, 500))
  expect(await active()).toEqual(['100', '500'])
})

test('[version-4] /readyz reports the loaded bundle through policy_version and policy_hash', async () => {
  const text = JSON.stringify(sized(200, 600))
  await edge.publish(text)
  expect(JSON.parse((await edge.get('/readyz')).body)).toMatchObject({
    policy_version: '200',
    policy_hash: createHash('sha256').update(text).digest('hex'),
  })
})
