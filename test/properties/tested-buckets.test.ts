import fc from 'fast-check'
import { expect, test } from 'vitest'
import { readCases } from '../../src/offline/cases/read-cases.ts'
import { runCase } from '../../src/offline/cases/run-case.ts'
import { bundle, policy, rateRule, windowRule } from '../support/bundles/bundles.ts'
import { runs } from '../support/run/property-runs.ts'
import { simulating } from '../support/simulation/simulating.ts'

/** A limit as a model counts it, in whole numbers. */
interface Model {
  /** Whether the request at that time passes. */
  take(caller: string, atMs: number): boolean
}

/** A token every `periodMs`, at most `burst`. */
class BucketModel implements Model {
  readonly #parts = new Map<string, { parts: number; atMs: number }>()
  readonly #periodMs: number
  readonly #burst: number

  constructor(periodMs: number, burst: number) {
    this.#periodMs = periodMs
    this.#burst = burst
  }

  take(caller: string, atMs: number): boolean {
    const most = this.#burst * this.#periodMs
    const bucket = this.#parts.get(caller) ?? { parts: most, atMs }
    // A part of a token comes each millisecond.
    const parts = Math.min(most, bucket.parts + atMs - bucket.atMs)
    const passes = parts >= this.#periodMs
    this.#parts.set(caller, { parts: passes ? parts - this.#periodMs : parts, atMs })
    return passes
  }
}

/** So many in each hour of UTC. */
class HourModel implements Model {
  readonly #used = new Map<string, number>()
  readonly #limit: number

  constructor(limit: number) {
    this.#limit = limit
  }

  take(caller: string, atMs: number): boolean {
    const hour = `${caller} ${Math.floor(atMs / 3_600_000)}`
    const used = this.#used.get(hour) ?? 0
    if (used < this.#limit) this.#used.set(hour, used + 1)
    return used < this.#limit
  }
}

const AT = '2026-01-01T00:59:50Z'

const steps = fc.array(
  fc.record({
    caller: fc.constantFrom('a', 'b'),
    afterMs: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 12_000 })),
    times: fc.integer({ min: 1, max: 6 }),
  }),
  { minLength: 1, maxLength: 12 },
)

test('edge test finds the statuses of a bucket that a model computes, and none other', async () => {
  // Powers of two: then the engine's numbers are exact, too.
  const limit = fc.record({ periodMs: fc.integer({ min: 0, max: 12 }).map((bits) => 2 ** bits), burst: fc.integer({ min: 1, max: 8 }) })
  await fc.assert(
    fc.asyncProperty(limit, steps, fc.nat(), async ({ periodMs, burst }, all, spoilt) => {
      const rule = rateRule('r', ['header:x-k'], { tokens_per_second: 1000 / periodMs, burst })
      await expectModelled(rule, new BucketModel(periodMs, burst), all, spoilt)
    }),
    { numRuns: runs(3) },
  )
})

test('the same for windows of an hour', async () => {
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 1, max: 8 }), steps, fc.nat(), async (limit, all, spoilt) => {
      await expectModelled(windowRule('r', ['header:x-k'], { limit, period: '1h' }), new HourModel(limit), all, spoilt)
    }),
    { numRuns: runs(3) },
  )
})

type StepFacts = { readonly caller: string; readonly afterMs: number; readonly times: number }

/** A case with the model's statuses holds; with the one at `spoilt` changed it fails there. */
async function expectModelled(rule: object, model: Model, all: readonly StepFacts[], spoilt: number): Promise<void> {
  let atMs = Date.parse(AT)
  const written = all.map(({ caller, afterMs, times }) => {
    atMs += afterMs
    const status = Array.from({ length: times }, () => (model.take(caller, atMs) ? 200 : 429))
    return { after: `${afterMs}ms`, request: { uri: '/', headers: { 'x-k': caller } }, times, expect: { status } }
  })
  const limited = bundle(1, policy('p', { rules: [rule] }))
  expect(await outcomeOf(limited, written)).toBeUndefined()
  const index = spoilt % written.length
  const request = spoilt % written[index]!.times
  const { status } = written[index]!.expect
  status[request] = status[request] === 200 ? 429 : 200
  expect(await outcomeOf(limited, written)).toMatchObject({ step: index + 1, request: request + 1 })
}

async function outcomeOf(limited: object, written: readonly object[]): Promise<object | undefined> {
  const read = readCases(JSON.stringify([{ name: 'it', at: AT, steps: written }]))
  if ('problems' in read) throw new Error(JSON.stringify(read.problems))
  return runCase(read.cases[0]!, (startMs) => simulating(limited, { startMs }))
}
