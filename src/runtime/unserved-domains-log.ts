import type { Logger } from 'pino'

/** Enough to show what happens. */
const LOGGED_POLICIES = 50

/** Says which policies of a bundle cover nothing, because no listener carries calls of the rate limit service. */
export function logUnservedDomains(policies: readonly string[], logger: Logger): void {
  if (policies.length === 0) return
  logger.warn(
    { event: 'domains_unserved', policies: policies.slice(0, LOGGED_POLICIES) },
    'policies with a domain cover nothing: set EDGE_GRPC_PORT or EDGE_GRPC_SOCKET',
  )
}
