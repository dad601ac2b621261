import { bucketRule, bundle, policy } from '../bundles/bundles.ts'
import { HttpBackend } from '../proxy/backend.ts'
import type { Edge } from '../service/edge.ts'
import type { Answer, Fields } from '../service/http.ts'
import { ManualClock } from '../service/manual-clock.ts'
import { running } from '../service/running.ts'
import type { Gateway, Variant } from './gateway.ts'

export const ALICE: Fields = [['X-Api-Key', 'alice']]
/** A key that comes twice: 400 `repeated_descriptor`. */
export const TWICE: Fields = [...ALICE, ['X-Api-Key', 'x1']]

/** The gateway between a backend and what it asks, all of them for as long as the test runs. */
export async function behind(
  gateway: Gateway,
  asked: { readonly port: number },
  variant: Variant = 'fail closed',
): Promise<{ port: number; backend: HttpBackend }> {
  const backend = await HttpBackend.start()
  return { port: await gateway.start({ edge: asked.port, backend: backend.port }, variant), backend }
}

/** An edge that allows each key so many requests, and then one a second, by a clock that stands still. */
export async function edgeAllowing(burst: number): Promise<Edge> {
  return running({ bundle: oneRule(burst), clock: new ManualClock() })
}

export function oneRule(burst: number): object {
  return bundle(1, policy('api', { rules: [bucketRule('per-key', ['header:x-api-key'], burst)] }))
}

/** Stands in for edge: allows everything, and keeps the questions. */
export function recordingEdge(): Promise<HttpBackend> {
  return HttpBackend.start((_req, res) => void res.writeHead(200, { 'Content-Length': 0 }).end())
}

export function statusAndReason({ status, headers }: Answer): [number, string | undefined] {
  return [status, headers['x-edge-reason']]
}
