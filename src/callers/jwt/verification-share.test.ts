import { describe, expect, test } from 'vitest'
import { sized } from '../../../test/support/run/property-runs.ts'
import { VerificationShare } from './verification-share.ts'

/** A client that asks for a verification again and again. The clock is a number, and work moves it. */
interface Client {
  readonly address: string | undefined
  /** How long it waits after each question. */
  readonly everyMs: number
  readonly costMs: number
  /** Whether its tokens are good. */
  readonly isGood?: boolean
}

interface Outcome {
  admitted: number
  refused: number
  spentMs: number
}

/** Lets clients ask for so long; returns what became of it, in the order of the clients. Other work takes no time here. */
function simulate(share: VerificationShare, clients: readonly Client[], forMs: number, startMs = 0): Outcome[] {
  const outcomes = clients.map(() => ({ admitted: 0, refused: 0, spentMs: 0 }))
  // Clients start one after the other, so that no two always ask at the same time.
  const nextMs = clients.map(({ everyMs }, i) => startMs + (everyMs * i) / clients.length)
  let nowMs = startMs
  while (nowMs < startMs + forMs) {
    const i = earliest(nextMs)
    const { address, everyMs, costMs, isGood } = clients[i]!
    const outcome = outcomes[i]!
    nowMs = Math.max(nowMs, nextMs[i]!)
    if (share.admits(address, nowMs)) {
      nowMs += costMs
      share.charge(address, costMs, nowMs, isGood)
      outcome.admitted++
      outcome.spentMs += costMs
    } else outcome.refused++
    nextMs[i] = nowMs + everyMs
  }
  return outcomes
}

function earliest(timesMs: readonly number[]): number {
  let first = 0
  for (let i = 1; i < timesMs.length; i++) if (timesMs[i]! < timesMs[first]!) first = i
  return first
}

/** All together want five tokens a millisecond, or the whole time. */
function flood(addresses: number, costMs = 0.1): Client[] {
  return Array.from({ length: addresses }, (_, i) => ({ address: `10.0.${i >> 8}.${i & 255}`, everyMs: 0.2 * addresses, costMs }))
}

const sum = (outcomes: readonly Outcome[]): number => outcomes.reduce((total, { spentMs }) => total + spentMs, 0)

describe('verification takes less than a third of the time', () => {
  test.each([
    [1, 0.1],
    [3, 0.1],
    [50, 0.1],
    [1, 5],
    [50, 5],
  ])('under a flood from %i addresses with tokens that take %f ms', (addresses, costMs) => {
    const spentMs = sum(simulate(new VerificationShare(), flood(addresses, costMs), 5000))
    expect(spentMs).toBeLessThan(0.3 * 5000 + 0.3 * 500 + costMs)
    expect(spentMs).toBeGreaterThan(0.28 * 5000)
  })

  test('and a pause of the machine is not held against anybody for long', () => {
    const share = new VerificationShare()
    share.charge('10.0.0.1', 60_000, 60_000)
    expect(share.admits('10.0.0.1', 60_100)).toBe(true)
  })
})

describe('a flood locks nobody else out', () => {
  const calm: Client[] = [
    { address: '192.0.2.1', everyMs: 100, costMs: 0.1 },
    { address: '192.0.2.2', everyMs: 30, costMs: 0.1 },
    { address: '2001:db8::1', everyMs: 500, costMs: 1 },
  ]

  test.each([1, 3, 50])('that comes from %i addresses', (addresses) => {
    const share = new VerificationShare()
    simulate(share, flood(addresses), 3000)
    const [first, second, third, ...flooding] = simulate(share, [...calm, ...flood(addresses)], 5000, 3000)
    expect([first!.refused, second!.refused, third!.refused]).toEqual([0, 0, 0])
    expect(flooding.reduce((total, { refused }) => total + refused, 0)).toBeGreaterThan(1000)
  })

  test.each([
    [500, 0.1],
    [2000, 1.5],
    [sized(3000, 20_000), 0.1],
  ])('that comes from %i networks, with tokens that take %f ms, if good tokens came from there before', (networks, costMs) => {
    const share = new VerificationShare()
    const good = calm.map((client) => ({ ...client, isGood: true }))
    simulate(share, good, 1000)
    const flooding = Array.from({ length: networks }, (_, i) => ({
      address: `2001:db8:${(i >> 8).toString(16)}:${(i & 255).toString(16)}::1`,
      everyMs: 0.2 * networks,
      costMs,
    }))
    simulate(share, flooding, 1000, 1000)
    const [first, second, third, ...others] = simulate(share, [...good, ...flooding], 1000, 2000)
    expect([first!.refused, second!.refused, third!.refused]).toEqual([0, 0, 0])
    expect(sum(others)).toBeLessThan(0.3 * 1000 + 0.3 * 500 + costMs)
  })

  test('on a machine that pauses in the middle of each of its tokens', () => {
    const outcomes = simulate(new VerificationShare(), [...calm, ...flood(3, 120)], 10_000)
    expect(outcomes.slice(0, 3).map(({ refused }) => refused)).toEqual([0, 0, 0])
  })

  test('and two who want more than there is get about the same', () => {
    const clients = [...flood(1), { address: '192.0.2.1', everyMs: 0.01, costMs: 0.4 }]
    const [one, other] = simulate(new VerificationShare(), clients, 3000)
    expect(one!.spentMs / other!.spentMs).toBeGreaterThan(0.7)
    expect(one!.spentMs / other!.spentMs).toBeLessThan(1.4)
  })

  test('and who floods gets in again soon after it has stopped', () => {
    const share = new VerificationShare()
    simulate(share, flood(1), 3000)
    expect(share.admits('10.0.0.0', 3500)).toBe(true)
  })
})

test('among a thousand addresses nobody waits for longer than half a second', () => {
  const share = new VerificationShare()
  for (let i = 0; i < 1000; i++) share.charge(`10.0.${i >> 8}.${i & 255}`, 0.001, 1000)
  share.charge('192.0.2.1', 5, 1000)
  expect([share.admits('192.0.2.1', 1000), share.admits('192.0.2.1', 1499)]).toEqual([false, true])
})

test('somebody who is alone may use the whole share', () => {
  const [alone] = simulate(new VerificationShare(), [{ address: '192.0.2.1', everyMs: 0.4, costMs: 0.1 }], 3000)
  expect(alone!.refused).toBe(0)
})

test.each([
  ['10.0.0.1', '10.0.0.1', true],
  ['10.0.0.1', '::ffff:10.0.0.1', true],
  ['10.0.0.1', '10.0.0.2', false],
  ['2001:db8::1', '2001:db8::ffff:2', true],
  ['2001:db8::1', '2001:db8:0:1::1', false],
  [undefined, 'not an address', true],
  [undefined, '10.0.0.1', false],
])('%s and %s have one share: %s', (address, other, isOne) => {
  const share = new VerificationShare()
  for (let i = 0; share.admits(address, 1000); i++) share.charge(address, 1, 1000)
  expect(share.admits(other, 1000)).toBe(!isOne)
})

test('memory for addresses is bounded, and beyond the bound a flood does not lock out everybody', () => {
  const share = new VerificationShare()
  for (let i = 0; i < sized(25_000, 100_000); i++)
    share.charge(`2001:db8:${(i >> 8).toString(16)}:${(i & 255).toString(16)}::1`, 0.0001, 1000)
  expect(share.sizes.owing).toBeLessThanOrEqual(8192 + 1024)
  share.charge('198.51.100.1', 20, 1000)
  expect(share.admits('198.51.100.1', 1000)).toBe(false)
  const others = Array.from({ length: 100 }, (_, i) => share.admits(`192.0.2.${i}`, 1000))
  expect(others.filter(Boolean).length).toBeGreaterThan(90)
  for (let nowMs = 1000; nowMs <= 3000; nowMs += 500) share.charge('10.0.0.1', 1, nowMs)
  expect(share.sizes).toEqual({ owing: 2, proven: 0 })
})

test('so is that for addresses from which good tokens came, and the last of them are remembered', () => {
  const share = new VerificationShare()
  for (let i = 0; i < sized(25_000, 100_000); i++)
    share.charge(`2001:db8:${(i >> 8).toString(16)}:${(i & 255).toString(16)}::1`, 0, i, true)
  expect(share.sizes.proven).toBeLessThanOrEqual(2 * 8192)
  expect(share.sizes.proven).toBeGreaterThanOrEqual(8192)
})
