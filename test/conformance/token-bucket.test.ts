import { afterAll, beforeAll, expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../support/bundles/bundles.ts'
import { Edge } from '../support/service/edge.ts'
import { ManualClock } from '../support/service/manual-clock.ts'

/** Specification: Resources and their fields; algorithm_config for token_bucket. */

const clock = new ManualClock()
let edge: Edge

beforeAll(async () => {
  edge = await Edge.start({
    clock,
    bundle: bundle(
      1,
      policy('quick', { selector: { pathPrefix: '/quick' }, rules: [bucketRule('two-a-second', ['header:x-caller'], 4, 2)] }),
      policy('fractions', { selector: { pathPrefix: '/fractions' }, rules: [bucketRule('slow', ['header:x-caller'], 2.5, 0.25)] }),
    ),
  })
})

afterAll(() => edge.stop())

test('[bucket-2] burst is how many requests a full bucket admits at one moment', async () => {
  expect(await edge.decideTimes(5, { uri: '/quick', fields: [['X-Caller', 'ann']] })).toEqual([200, 200, 200, 200, 429])
})

test('[bucket-3] tokens_per_second is how many requests each second admits after that', async () => {
  const request = { uri: '/quick', fields: [['X-Caller', 'ben']] as const }
  await edge.decideTimes(4, request)
  clock.advance(1000)
  expect(await edge.decideTimes(3, request)).toEqual([200, 200, 429])
  clock.advance(499)
  expect(await edge.decideTimes(1, request)).toEqual([429])
  clock.advance(1)
  expect(await edge.decideTimes(2, request)).toEqual([200, 429])
})

test('[bucket-4] a bucket left alone fills up to its burst and no further', async () => {
  const request = { uri: '/quick', fields: [['X-Caller', 'cora']] as const }
  await edge.decideTimes(4, request)
  clock.advance(3_600_000)
  expect(await edge.decideTimes(5, request)).toEqual([200, 200, 200, 200, 429])
})

test('[bucket-5] both may be fractions: half tokens add up and are never handed out', async () => {
  const request = { uri: '/fractions', fields: [['X-Caller', 'dan']] as const }
  expect(await edge.decideTimes(3, request)).toEqual([200, 200, 429])
  clock.advance(2000) // half a token left, and half a token back
  expect(await edge.decideTimes(2, request)).toEqual([200, 429])
  clock.advance(3999)
  expect(await edge.decideTimes(1, request)).toEqual([429])
  clock.advance(1)
  expect(await edge.decideTimes(2, request)).toEqual([200, 429])
})
