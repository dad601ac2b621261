import { setImmediate as turn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { SlicedTexts } from './api-route.ts'

test('texts are made one after the other, and other work goes on between their slices', async () => {
  const texts = new SlicedTexts()
  const steps: string[] = []
  let isOver = false
  const both = Promise.all([texts.make(busy('a', steps)), texts.make(busy('b', steps))]).finally(() => {
    isOver = true
  })
  let turns = 0
  for (; !isOver; turns++) await turn()
  expect((await both).map(String)).toEqual(['text a', 'text b'])
  expect(steps.join('')).toBe('aaaabbbb')
  expect(turns).toBeGreaterThan(steps.length)
})

test('one that breaks does not hold up the next', async () => {
  const texts = new SlicedTexts()
  const [broken, next] = [texts.make(breaking()), texts.make(busy('next', []))]
  await expect(broken).rejects.toThrow('broken')
  expect(String(await next)).toBe('text next')
})

/** Each step takes longer than a slice. */
function* busy(name: string, steps: string[]): Generator<void, Buffer> {
  for (let i = 0; i < 4; i++) {
    for (const endMs = performance.now() + 3; performance.now() < endMs; );
    steps.push(name)
    yield
  }
  return Buffer.from(`text ${name}`)
}

// biome-ignore lint/correctness/useYield: it throws before it could
function* breaking(): Generator<void, Buffer> {
  throw new Error('broken')
}
