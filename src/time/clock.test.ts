import { expect, test } from 'vitest'
import { WallTime } from './clock.ts'

test('wall time goes on with the other clock for a millisecond, and is then read anew', () => {
  let readings = 0
  let wallMs = 5000.25
  const wallTime = new WallTime({
    nowMs: () => 0,
    wallMs: () => {
      readings++
      return wallMs
    },
  })
  expect(wallTime.at(100)).toBe(5000.25)
  expect(wallTime.at(100.5)).toBe(5000.75)
  expect(readings).toBe(1)
  wallMs = 7000
  expect(wallTime.at(101)).toBe(7000)
  expect(readings).toBe(2)
})

test('a clock that was set is believed at once where the other one steps back', () => {
  let wallMs = 5000
  const wallTime = new WallTime({ nowMs: () => 0, wallMs: () => wallMs })
  wallTime.at(100)
  wallMs = 10
  expect(wallTime.at(99)).toBe(10)
})
