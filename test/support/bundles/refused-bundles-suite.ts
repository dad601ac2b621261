import { beforeAll, describe, expect, test } from 'vitest'
import type { Edge } from '../service/edge.ts'
import type { Answer } from '../service/http.ts'
import { ManualClock } from '../service/manual-clock.ts'
import { running } from '../service/running.ts'
import { thisSuite } from '../service/suite-owner.ts'
import { BAD_JSON, type BadBundle } from './bad-json-bundles.ts'
import { BAD_YAML } from './bad-yaml-bundles.ts'
import { offer } from './bundle-file.ts'
import { bucketRule, bundle, policy } from './bundles.ts'

const GOOD = bundle(10, policy('good', { selector: { pathPrefix: '/api' }, rules: [bucketRule('per-caller', ['header:x-caller'], 1000)] }))
const CALL = { uri: '/api', fields: [['X-Caller', 'alice']] } as const

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

/** Expects exactly these problems, each in a line that can be read. */
export function expectProblems(lines: readonly string[], { problems }: BadBundle): void {
  const notNamedOnce = problems.filter((problem) => lines.filter((line) => line.startsWith(problem)).length !== 1)
  const tooLong = lines.filter((line) => line.length > 500)
  expect({ notNamedOnce, tooLong, count: lines.length }, lines.join('\n')).toEqual({
    notNamedOnce: [],
    tooLong: [],
    count: problems.length,
  })
}

/** Offers bad bundles to running services: those of which `isOffered` says so, shared out among so many services of each format. */
export function refusedBundlesSuite(services: number, isOffered: (bad: BadBundle) => boolean = () => true): void {
  describe.each([
    ['JSON', 'bundle.json', BAD_JSON.filter(isOffered)],
    ['YAML', 'bundle.yaml', BAD_YAML.filter(isOffered)],
  ] as const)('a %s bundle that cannot be loaded', (_format, fileName, badBundles) => {
    const suite = thisSuite()
    const observed = new Map<BadBundle, Observed>()
    beforeAll(async () => {
      const shares = Array.from({ length: services }, (_, i) => badBundles.filter((_bad, at) => at % services === i))
      await Promise.all(
        shares.map(async (share) => {
          const edge = await running({ bundle: GOOD, fileName, clock: new ManualClock() }, suite)
          for (const bad of share) observed.set(bad, await observe(edge, bad))
        }),
      )
    })

    test.each(badBundles)('$what: is refused with its reasons, and the last good one decides on', (bad) => {
      const { verdict, bundlePath, before, after } = observed.get(bad)!
      expect(verdict).toMatchObject({ event: 'bundle_refused', level: 50, active_version: '10', path: bundlePath })
      expectProblems(verdict['problems'] as string[], bad)
      expect(after.decision.status).toBe(200)
      expect(remaining(after)).toBe(remaining(before) - 1)
      expect(after.decision.headers['ratelimit-limit']).toBe('1000')
      expect(after).toMatchObject({ ready: before.ready, refused: before.refused + 1, applied: 1 })
    })
  })
}

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
