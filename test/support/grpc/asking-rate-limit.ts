import { bundle, policy } from '../bundles/bundles.ts'
import type { Edge } from '../service/edge.ts'
import { ManualClock } from '../service/manual-clock.ts'
import { running } from '../service/running.ts'
import type { JsClient } from './js-client.ts'
import { rateLimitService } from './rate-limit.ts'

export const GRPC = { EDGE_GRPC_PORT: '0' }
export const USER = 'descriptor:user'

export async function asking(...rules: object[]): Promise<[JsClient, Edge]> {
  return askingWith(bundle(1, inDomain(...rules)))
}

export async function askingWith(published: object): Promise<[JsClient, Edge]> {
  const edge = await running({ bundle: published, clock: new ManualClock(), env: GRPC })
  return [rateLimitService(edge.grpcPort), edge]
}

export function inDomain(...rules: object[]) {
  return policy('p', { selector: { domain: 'd' }, rules })
}
