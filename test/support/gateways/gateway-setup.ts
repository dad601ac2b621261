import { bucketRule, bundle, policy } from '../bundles/bundles.ts'
import { HttpBackend } from '../proxy/backend.ts'
import type { Edge, EdgeOptions } from '../service/edge.ts'
import type { Answer, Fields } from '../service/http.ts'
import { ManualClock } from '../service/manual-clock.ts'
import { running } from '../service/running.ts'
import { type Gateway, isGrpc, type Variant } from './gateway.ts'

export const ALICE: Fields = [['X-Api-Key', 'alice']]
/** A key that comes twice: 400 `repeated_descriptor`. */
export const TWICE: Fields = [...ALICE, ['X-Api-Key', 'x1']]

/** What a gateway asks. Without a port for gRPC of its own, it has one for what the gateway speaks. */
interface Asked {
  readonly port: number
  readonly grpcPort?: number
}

export function portFor(gateway: Gateway, { port, grpcPort }: Asked): number {
  return isGrpc(gateway) ? (grpcPort ?? port) : port
}

/** An edge that every gateway can ask. */
export function startEdge(options: EdgeOptions = {}): Promise<Edge> {
  return running({ ...options, env: { EDGE_GRPC_PORT: '0', ...options.env } })
}

/** The gateway between a backend and what it asks, all of them for as long as the test runs. */
export async function behind(
  gateway: Gateway,
  asked: Asked,
  variant: Variant = 'fail closed',
  edgeMayTake: 'a second' | 'its time' = 'its time',
): Promise<{ port: number; backend: HttpBackend }> {
  const backend = await HttpBackend.start()
  return { port: await gateway.start({ edge: portFor(gateway, asked), backend: backend.port, edgeMayTake }, variant), backend }
}

/** An edge that allows each key so many requests, and then one a second, by a clock that stands still. */
export async function edgeAllowing(burst: number): Promise<Edge> {
  return startEdge({ bundle: oneRule(burst), clock: new ManualClock() })
}

export function oneRule(burst: number): object {
  return bundle(1, policy('api', { rules: [bucketRule('per-key', ['header:x-api-key'], burst)] }))
}

export function statusAndReason({ status, headers }: Answer): [number, string | undefined] {
  return [status, headers['x-edge-reason']]
}
