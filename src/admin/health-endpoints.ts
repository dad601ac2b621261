import type { IncomingMessage, ServerResponse } from 'node:http'
import { respondJson, respondText } from '../http/respond.ts'
import type { BundleInfo } from '../policy/bundle-info.ts'

export interface Health {
  readonly bundle: () => BundleInfo | undefined
  readonly isShuttingDown: () => boolean
  /** Whether everything that requests come to is open. */
  readonly isListening: () => boolean
  /** Whether a shared store can be asked; undefined where counters are this process's own. */
  readonly hasSharedStore?: (() => boolean) | undefined
}

/** GET /livez: the process runs. */
export function handleLivez(_req: IncomingMessage, res: ServerResponse): void {
  respondText(res, 200, 'text/plain; charset=utf-8', 'ok')
}

/** GET /readyz: requests can be decided. */
export function handleReadyz(health: Health, res: ServerResponse): void {
  const bundle = health.bundle()
  if (health.isShuttingDown()) respondJson(res, 503, { status: 'not_ready', reason: 'shutting_down' })
  else if (bundle === undefined) respondJson(res, 503, { status: 'not_ready', reason: 'no_policy_loaded' })
  else if (!health.isListening()) respondJson(res, 503, { status: 'not_ready', reason: 'starting' })
  else {
    const { version, hash, updatedAtS } = bundle
    const body = { status: 'ready', policy_version: version, policy_hash: hash, last_config_update: updatedAtS }
    // Told, and no reason to fail: the failure mode decides meanwhile, on every instance alike.
    const redis = health.hasSharedStore?.() ? 'connected' : 'unavailable'
    respondJson(res, 200, health.hasSharedStore === undefined ? body : { ...body, redis })
  }
}
