import { beforeAll, describe, expect, test } from 'vitest'
import { BAD_JSON, type BadBundle } from '../../support/bundles/bad-json-bundles.ts'
import { BAD_YAML } from '../../support/bundles/bad-yaml-bundles.ts'
import { offer } from '../../support/bundles/bundle-file.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import type { Edge } from '../../support/service/edge.ts'
import type { Answer } from '../../support/service/http.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'
import { thisSuite } from '../../support/service/suite-owner.ts'

const GOOD = bundle(10, policy('good', { selector: { pathPrefix: '/api' }, rules: [bucketRule('per-caller', ['header:x-caller'], 1000)] }))
const CALL = { uri: '/api', fields: [['X-Caller', 'alice']] } as const

/** Looking at a file takes a moment: so many services do it side by side, each with its share of the bundles. */
const SERVICES = 12

interface Observed {
  readonly verdict: Readonly<Record<string, unknown>>
  readonly bundlePath: string
  readonly before: Seen
  readonly after: Seen
}

/** What a service answers while a bundle is active. */
interface Seen {
  readonly decision: Answer
  readonly ready: string
  readonly refused: number
  readonly applied: number
}

describe.each([
  ['JSON', 'bundle.json', BAD_JSON],
  ['YAML', 'bundle.yaml', BAD_YAML],
] as const)('a %s bundle that cannot be loaded', (_format, fileName, badBundles) => {
  const suite = thisSuite()
  const observed = new Map<BadBundle, Observed>()
  beforeAll(async () => {
    const shares = Array.from({ length: SERVICES }, (_, i) => badBundles.filter((_bad, at) => at % SERVICES === i))
    await Promise.all(
      shares.map(async (share) => {
        const edge = await running({ bundle: GOOD, fileName, clock: new ManualClock() }, suite)
        for (const bad of share) observed.set(bad, await observe(edge, bad))
      }),
    )
  }, 60_000)

  test.each(badBundles)('$what: is refused with its reasons, and the last good one decides on', (bad) => {
    const { verdict, bundlePath, before, after } = observed.get(bad)!
    expect(verdict).toMatchObject({ event: 'bundle_refused', level: 50, active_version: '10', path: bundlePath })
    const lines = verdict['problems'] as string[]
    for (const problem of bad.problems) expect(lines.filter((line) => line.startsWith(problem))).toHaveLength(1)
    expect(lines).toHaveLength(bad.problems.length)
    expect(lines.filter((line) => line.length > 500)).toEqual([])

    expect(after.decision.status).toBe(200)
    expect(remaining(after)).toBe(remaining(before) - 1)
    expect(after.decision.headers['ratelimit-limit']).toBe('1000')
    expect(after).toMatchObject({ ready: before.ready, refused: before.refused + 1, applied: 1 })
  })
})

async function observe(edge: Edge, { content }: BadBundle): Promise<Observed> {
  const before = await look(edge)
  const verdict = await offer(edge, content)
  return { verdict, bundlePath: edge.bundlePath, before, after: await look(edge) }
}

async function look(edge: Edge): Promise<Seen> {
  return {
    decision: await edge.decide(CALL),
    ready: (await edge.get('/readyz')).body,
    refused: await edge.metric('edge_bundle_reloads_total{result="refused"}'),
    applied: await edge.metric('edge_bundle_reloads_total{result="applied"}'),
  }
}

function remaining({ decision }: Seen): number {
  return Number(decision.headers['ratelimit-remaining'])
}
