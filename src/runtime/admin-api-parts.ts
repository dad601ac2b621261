import { Access } from '../admin/api/access.ts'
import { AdminApi } from '../admin/api/admin-api.ts'
import { AdminToken } from '../admin/api/admin-token.ts'
import type { ApiRoute } from '../admin/api/api-route.ts'
import { statusEndpoint } from '../admin/api/status-endpoint.ts'
import { topEndpoint } from '../admin/api/top-endpoint.ts'
import { VERSION } from '../version.ts'
import type { ServerOptions, ServerParts } from './server-parts.ts'

/** The admin API of a worker. `config` has a token. */
export function newAdminApi(config: ServerOptions, parts: ServerParts): AdminApi {
  const { wrongTokens, logger, clock } = parts
  const token = new AdminToken(config.adminToken!)
  const access = new Access({ token, wrongTokens, logger, nowMs: () => clock.nowMs() })
  return new AdminApi(access, apiRoutes(config, parts))
}

/** Everything below `/admin/v1/`. */
function* apiRoutes(config: ServerOptions, { engine, desk, storeStats, hasSharedStore }: ServerParts): Generator<ApiRoute> {
  const { mode, redisMode } = config
  const redis = hasSharedStore && { mode: redisMode, isConnected: hasSharedStore }
  yield statusEndpoint({ version: VERSION, mode, storeStats, redis, instance: () => desk.ask('status', undefined) })
  yield topEndpoint({ ask: config.top ? (ask) => desk.ask('top', ask) : undefined, plan: () => engine.plan })
}
