import { expect } from 'vitest'
import type { KeptCounters } from '../state/kept-counters.ts'
import { budgetBundle, errorOf, left, reserved, settle } from './settling.ts'

export const BUDGET = budgetBundle(10_000)

interface Again {
  readonly port: number
  stop(): Promise<unknown>
}

/** What was reserved before a restart is settled once, after it or after one more. */
export async function settledOnce(kept: KeptCounters, again: () => Promise<Again>): Promise<void> {
  const first = await kept.run()
  const [settled, open, second] = [await reserved(first), await reserved(first), await reserved(first)]
  await settle(first.port, settled)
  await first.stop()

  const next = await again()
  expect(errorOf(await settle(next.port, settled))).toMatchObject({ status: 409, code: 'already_settled' })
  expect((await settle(next.port, open, { completion_tokens: 1 })).status).toBe(204)
  expect((await settle(next.port, open)).status).toBe(409)
  await next.stop()

  const last = await kept.run()
  expect((await settle(last.port, open)).status).toBe(409)
  expect((await settle(last.port, second, { completion_tokens: 2 })).status).toBe(204)
  expect(await left(last)).toBe(10_000 - 3)
}
