import { describe, expect, test } from 'vitest'
import { RecentSamples } from './activity-control.ts'

const timeOf = (i: number): string => new Date(Date.UTC(2026, 0, 1) + i * 2000).toISOString()

describe('the samples that are kept', () => {
  test('are those of a quarter of an hour', () => {
    const samples = new RecentSamples()
    for (let i = 0; i < 1000; i++) samples.add(timeOf(i), String(i), [])
    expect(samples.since(undefined)).toEqual(Array.from({ length: 450 }, (_, i) => String(550 + i)))
  })

  test('are fewer where their texts are long', () => {
    const samples = new RecentSamples()
    for (let i = 0; i < 450; i++) samples.add(timeOf(i), 'x'.repeat(10_000), [])
    expect(samples.since(undefined).length).toBe(104)
    samples.add(timeOf(450), 'x'.repeat(10_000_000), [])
    expect(samples.since(undefined)).toHaveLength(1)
  })

  test('name the busiest policies of the last minute, each once', () => {
    const samples = new RecentSamples()
    samples.add(timeOf(0), '', ['old'])
    for (let i = 1; i <= 33; i++) samples.add(timeOf(i), '', ['a', `b${i % 2}`])
    expect(samples.busiest()).toEqual(['a', 'b1', 'b0'])
  })
})
