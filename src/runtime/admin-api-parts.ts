import { AdminApi } from '../admin/api/admin-api.ts'
import { AdminToken } from '../admin/api/admin-token.ts'
import type { ApiRoute } from '../admin/api/api-route.ts'
import { countersEndpoints } from '../admin/api/counters/counters-endpoints.ts'
import { resetEndpoint } from '../admin/api/counters/reset-endpoint.ts'
import { explainEndpoint } from '../admin/api/explain/explain-endpoint.ts'
import type { ExplainRequest } from '../decide/request-explanation.ts'
import type { Plan } from '../policy/plan.ts'
import { VERSION } from '../version.ts'
import { resetCounters } from './reset-counters.ts'
import type { ServerOptions, ServerParts } from './server-parts.ts'

/** The admin API of a worker. `config` has a token. `explain`: as its mode responds. */
export function newAdminApi(config: ServerOptions, parts: ServerParts, explain: ExplainRequest): AdminApi {
  const { wrongSecrets, logger, clock } = parts
  const token = new AdminToken(config.adminToken!)
  return new AdminApi({ token, wrongSecrets, logger, nowMs: () => clock.nowMs() }, apiRoutes(config, parts, explain))
}

/** Everything below `/admin/v1/`. */
function* apiRoutes(config: ServerOptions, parts: ServerParts, explain: ExplainRequest): Generator<ApiRoute> {
  const { desk } = parts
  yield {
    method: 'GET',
    path: 'status',
    handle: async () => {
      const { uptimeS } = await desk.ask('uptime', undefined)
      return { status: 200, json: { version: VERSION, uptime_s: uptimeS } }
    },
  }
  yield explainEndpoint(explain, parts.reservations.nameOf)
  yield* counterRoutes(config, parts)
}

function* counterRoutes({ stateFile }: ServerOptions, { engine, desk, logger, reservations }: ServerParts): Generator<ApiRoute> {
  const { nameOf } = reservations
  const plan = (): Plan | undefined => engine.plan
  yield* countersEndpoints({ plan, inspect: (name) => engine.inspect(name), nameOf })
  const save = async (): Promise<boolean> => stateFile === undefined || (await desk.ask('save_state', undefined)).isSaved
  yield resetEndpoint({ plan, reset: (name) => resetCounters(engine, name), save, nameOf, logger })
}
