import { expect } from 'vitest'
import { bundle, concurrencyRule, policy } from '../bundles/bundles.ts'
import type { Edge } from '../service/edge.ts'
import { reserve, settle, settleWith } from './settling.ts'

export const HOLD_MS = 80_000
export const TWO_AT_A_TIME = bundle(1, policy('p', { rules: [concurrencyRule('two', ['header:x-key'], 2, HOLD_MS / 1000)] }))

export async function renewed(edge: Edge, reservation: string): Promise<string> {
  const { status, headers } = await settleWith(edge.port, { reservation, renew: true })
  expect(status).toBe(204)
  return headers['x-edge-reservation']!
}

/** How many more could be in flight. */
export async function free(edge: Edge): Promise<number> {
  const tokens: string[] = []
  for (let next = await reserve(edge); next.status === 200; next = await reserve(edge)) tokens.push(next.headers['x-edge-reservation']!)
  for (const token of tokens) expect((await settle(edge.port, token)).status).toBe(204)
  return tokens.length
}
