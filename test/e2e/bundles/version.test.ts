import { mkdir, rm } from 'node:fs/promises'
import { describe, expect, type TestContext, test } from 'vitest'
import { offer, replaceFile, verdictAfter } from '../../support/bundles/bundle-file.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'
import { until } from '../../support/until.ts'

const RULES = { rules: [bucketRule('r', [], 100)] }
const OTHER_RULES = { rules: [bucketRule('other', [], 7)] }

describe.concurrent('a version that is not higher', () => {
  test.for([10, '10', '010', 9, 0, '9'])('%j after 10 is refused, and 10 decides on with its counters', async (version, t) => {
    const edge = await startAt10(t)
    await edge.decideTimes(3)
    const verdict = await offer(edge, bundle(version, policy('p', OTHER_RULES)))
    expect(verdict).toMatchObject({
      event: 'bundle_refused',
      active_version: '10',
      problems: [
        `bundle_version: expected a version above the active one (10), got ${Number(version)}. To go back, publish the old policies under a higher version: edge rollback (line 1, column 2)`,
      ],
    })
    expect((await edge.decide()).headers['ratelimit']).toBe('"p";r=96;t=4')
    expect(await reloads(edge)).toEqual({ applied: 1, refused: 1, unchanged: 0, unreadable: 0 })
  })

  test('versions compare as integers, beyond what a double can tell apart', async (t) => {
    const edge = await running({ bundle: bundle('9007199254740992') }, t)
    expect(await offer(edge, bundle('9007199254740993'))).toMatchObject({ event: 'bundle_applied', version: '9007199254740993' })
    expect(await offer(edge, bundle('9'))).toMatchObject({ event: 'bundle_refused' })
    expect(await offer(edge, bundle('10000000000000000'))).toMatchObject({ event: 'bundle_applied' })
  })

  test('a refused bundle does not use up its version', async (t) => {
    const edge = await startAt10(t)
    await offer(edge, bundle(11, policy('p', { rules: [bucketRule('r', [], -1)] })))
    expect(await offer(edge, bundle(11, policy('p', OTHER_RULES)))).toMatchObject({ event: 'bundle_applied', version: '11' })
    expect((await edge.decide()).headers['ratelimit-limit']).toBe('7')
  })
})

test('the same bytes written again are no news', async (t) => {
  const edge = await startAt10(t)
  await edge.decideTimes(3)
  const ready = (await edge.get('/readyz')).body
  expect(await offer(edge, bundle(10, policy('p', RULES)))).toMatchObject({ event: 'bundle_unchanged', level: 30 })
  expect((await edge.decide()).headers['ratelimit-remaining']).toBe('96')
  expect((await edge.get('/readyz')).body).toBe(ready)
  expect(await reloads(edge)).toEqual({ applied: 1, refused: 0, unchanged: 1, unreadable: 0 })
})

describe.concurrent('a directory where the bundle belongs', () => {
  test('is said, and the last good bundle decides on', async (t) => {
    const edge = await startAt10(t)
    await edge.decideTimes(3)
    await verdictAfter(edge, () => rm(edge.bundlePath))
    const verdict = await verdictAfter(edge, () => mkdir(edge.bundlePath))
    expect(verdict).toMatchObject({ event: 'bundle_unreadable', level: 40, reason: expect.stringContaining('directory') })
    expect((await edge.decide()).headers['ratelimit-remaining']).toBe('96')
    expect((await reloads(edge))['applied']).toBe(1)
  })

  test('at the start leaves the service live and not ready until a good file takes its place', async (t) => {
    const edge = await running({}, t)
    await mkdir(edge.bundlePath)
    await until(() => edge.log.some(({ reason }) => String(reason).includes('directory')))
    expect((await edge.get('/livez')).status).toBe(200)
    expect((await edge.get('/readyz')).status).toBe(503)
    await rm(edge.bundlePath, { recursive: true })
    await replaceFile(edge.bundlePath, JSON.stringify(bundle(1)))
    await until(async () => (await edge.get('/readyz')).status === 200)
  })
})

function startAt10(t: TestContext): Promise<Edge> {
  return running({ bundle: bundle(10, policy('p', RULES)), clock: new ManualClock() }, t)
}

async function reloads(edge: Edge): Promise<Record<string, number>> {
  const counts: Record<string, number> = {}
  for (const result of ['applied', 'refused', 'unchanged', 'unreadable']) {
    counts[result] = await edge.metric(`edge_bundle_reloads_total{result="${result}"}`)
  }
  return counts
}
