import { AdminApi } from '../admin/api/admin-api.ts'
import { AdminToken } from '../admin/api/admin-token.ts'
import type { ApiRoute } from '../admin/api/api-route.ts'
import { eventsEndpoint } from '../admin/api/events/events-endpoint.ts'
import { VERSION } from '../version.ts'
import type { ServerOptions, ServerParts } from './server-parts.ts'

/** The admin API of a worker. `config` has a token. */
export function newAdminApi(config: ServerOptions, parts: ServerParts): AdminApi {
  const { wrongSecrets, logger, clock } = parts
  const token = new AdminToken(config.adminToken!)
  return new AdminApi({ token, wrongSecrets, logger, nowMs: () => clock.nowMs() }, apiRoutes(parts))
}

/** Everything below `/admin/v1/`. */
function* apiRoutes({ desk, eventStreams }: ServerParts): Generator<ApiRoute> {
  yield {
    method: 'GET',
    path: 'status',
    handle: async () => {
      const { uptimeS } = await desk.ask('uptime', undefined)
      return { status: 200, json: { version: VERSION, uptime_s: uptimeS } }
    },
  }
  yield eventsEndpoint(eventStreams!)
}
