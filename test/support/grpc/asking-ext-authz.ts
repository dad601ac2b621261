import { expect } from 'vitest'
import { bucketRule, bundle, policy } from '../bundles/bundles.ts'
import type { Edge } from '../service/edge.ts'
import { ManualClock } from '../service/manual-clock.ts'
import { running } from '../service/running.ts'
import { authorization, type CheckedRequest, check } from './ext-authz.ts'
import type { JsClient } from './js-client.ts'

export const GRPC = { EDGE_GRPC_PORT: '0' }

/** The service with these rules, and a client of its own. */
export async function asking(rules: readonly object[], env = {}): Promise<[JsClient, Edge]> {
  return askingWith(bundle(1, policy('p', { rules })), env)
}

export async function askingWith(published: object, env = {}): Promise<[JsClient, Edge]> {
  const edge = await running({ bundle: published, clock: new ManualClock(), env: { ...GRPC, ...env } })
  return [authorization(edge.grpcPort), edge]
}

export async function statuses(client: JsClient, times: number, request: CheckedRequest = {}): Promise<number[]> {
  const all: number[] = []
  for (let i = 0; i < times; i++) all.push((await check(client, request)).status)
  return all
}

export const BY_ADDRESS = [bucketRule('r', ['ip:address'], 1)]

/** Whether the second request counts as coming from the same address as the first. */
export async function isSame(first: CheckedRequest, second: CheckedRequest, env = {}): Promise<boolean> {
  const [client] = await asking(BY_ADDRESS, env)
  expect((await check(client, first)).status).toBe(200)
  return (await check(client, second)).status === 429
}
