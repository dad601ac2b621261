import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { BAD_JSON, type BadBundle } from '../../support/bundles/bad-json-bundles.ts'
import { BAD_YAML } from '../../support/bundles/bad-yaml-bundles.ts'
import { offer } from '../../support/bundles/bundle-file.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { Edge } from '../../support/service/edge.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { until } from '../../support/until.ts'

const GOOD = bundle(10, policy('good', { selector: { pathPrefix: '/api' }, rules: [bucketRule('per-caller', ['header:x-caller'], 1000)] }))
const REFUSED = 'edge_bundle_reloads_total{result="refused"}'
const CALL = { uri: '/api', fields: [['X-Caller', 'alice']] } as const

describe.each([
  ['JSON', 'bundle.json', BAD_JSON],
  ['YAML', 'bundle.yaml', BAD_YAML],
] as const)('a %s bundle that cannot be loaded', (_format, fileName, badBundles) => {
  // Looking at a file takes a moment: a few services do it side by side, each serving one test at a time.
  const idle: Edge[] = []
  beforeAll(async () => {
    for (let i = 0; i < 5; i++) idle.push(await Edge.start({ bundle: GOOD, fileName, clock: new ManualClock() }))
  })
  afterAll(() => Promise.all(idle.map((edge) => edge.stop())))

  test.concurrent.each(badBundles)('$what: is refused with its reasons, and the last good one decides on', async (badBundle) => {
    await until(() => idle.length > 0)
    const edge = idle.pop()!
    try {
      await expectRefusal(edge, badBundle)
      idle.push(edge)
    } catch (error) {
      // It may hold something else by now.
      await edge.stop()
      idle.push(await Edge.start({ bundle: GOOD, fileName, clock: new ManualClock() }))
      throw error
    }
  })
})

async function expectRefusal(edge: Edge, { content, problems }: BadBundle): Promise<void> {
  const before = await edge.decide(CALL)
  const refusals = await edge.metric(REFUSED)
  const ready = (await edge.get('/readyz')).body

  const verdict = await offer(edge, content)

  expect(verdict).toMatchObject({ event: 'bundle_refused', level: 50, active_version: '10', path: edge.bundlePath })
  const lines = verdict['problems'] as string[]
  for (const problem of problems) expect(lines.filter((line) => line.startsWith(problem))).toHaveLength(1)
  expect(lines).toHaveLength(problems.length)
  expect(lines.filter((line) => line.length > 500)).toEqual([])

  const after = await edge.decide(CALL)
  expect(after.status).toBe(200)
  expect(Number(after.headers['ratelimit-remaining'])).toBe(Number(before.headers['ratelimit-remaining']) - 1)
  expect(after.headers['ratelimit-limit']).toBe('1000')
  expect((await edge.get('/readyz')).body).toBe(ready)
  expect(await edge.metric(REFUSED)).toBe(refusals + 1)
  expect(await edge.metric('edge_bundle_reloads_total{result="applied"}')).toBe(1)
}
