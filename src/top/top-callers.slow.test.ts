import { describe, expect, test } from 'vitest'
import { bucketRule } from '../../test/support/bundles/bundles.ts'
import { sized } from '../../test/support/run/property-runs.ts'
import { KEY, Watched } from '../../test/support/store/watched-callers.ts'

describe('the callers nearest to a limit', () => {
  test('are found among very many others, though few are noted', async () => {
    const watched = new Watched(bucketRule('r', [KEY], 1000, 0.0001))
    watched.ask('mallory', 990)
    for (let i = 0; i < sized(5000, 30_000); i++) {
      watched.ask(`caller ${i}`)
      // 10,000 decisions in 100 ms.
      if (i % 100 === 0) watched.clock.advance(1)
      if (i % 1000 === 0) watched.ask('mallory', 0.001)
    }
    const { nearest } = await watched.read()
    expect(nearest[0]).toMatchObject({ values: { [KEY]: 'mallory' }, remaining: 9 })
    expect(nearest.length).toBeLessThanOrEqual(250)
  })
})

// That they do not keep more than this in memory: test/campaigns/kept-texts.test.ts
test('of callers with long values, the beginning is shown', async () => {
  const watched = new Watched(bucketRule('r', [KEY], 4, 0.0001))
  for (let i = 0; i < 2000; i++) {
    const key = `${i} ${'x'.repeat(600)}`
    watched.ask(key, 5)
    watched.ask(key, 3)
    if (i % 50 === 0) watched.clock.advance(100)
  }
  const { rejected, nearest, maxError } = await watched.read(3)
  expect(maxError).toBe(2)
  for (const { values } of [...rejected, ...nearest]) expect(values[KEY]).toMatch(/^\d+ x{100,}…$/)
})
