import { expect, test } from 'vitest'
import { ShortLives } from './worker-host.ts'

test('short lives in a row are followed by longer and longer pauses, up to five seconds', () => {
  const lives = new ShortLives()
  expect(Array.from({ length: 8 }, () => lives.note(999))).toEqual([100, 200, 400, 800, 1600, 3200, 5000, 5000])
})

test('a life of a second is followed by no pause, and the next short one by the shortest', () => {
  const lives = new ShortLives()
  expect([0, 0, 1000, 0].map((livedMs) => lives.note(livedMs))).toEqual([100, 200, 0, 100])
})
