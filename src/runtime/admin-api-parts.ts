import { Access } from '../admin/api/access.ts'
import { activityEndpoint } from '../admin/api/activity/activity-endpoint.ts'
import { AdminApi } from '../admin/api/admin-api.ts'
import { AdminToken } from '../admin/api/admin-token.ts'
import type { ApiRoute } from '../admin/api/api-route.ts'
import { bundleEndpoint } from '../admin/api/bundle-endpoint.ts'
import { countersEndpoints } from '../admin/api/counters/counters-endpoints.ts'
import { resetEndpoint } from '../admin/api/counters/reset-endpoint.ts'
import { eventsEndpoint } from '../admin/api/events/events-endpoint.ts'
import { explainEndpoint } from '../admin/api/explain/explain-endpoint.ts'
import { openapiEndpoint } from '../admin/api/openapi-endpoint.ts'
import { overrideEndpoints } from '../admin/api/overrides/override-endpoints.ts'
import { type PoliciesParts, policiesEndpoint } from '../admin/api/policies/policies-endpoint.ts'
import { AdminSessions } from '../admin/api/session/admin-sessions.ts'
import { sessionEndpoints } from '../admin/api/session/session-endpoints.ts'
import { statusEndpoint } from '../admin/api/status-endpoint.ts'
import { topEndpoint } from '../admin/api/top-endpoint.ts'
import { usageEndpoint } from '../admin/api/usage/usage-endpoint.ts'
import type { ExplainRequest } from '../decide/request-explanation.ts'
import type { ListedOverride } from '../overrides/override-order.ts'
import type { Plan } from '../policy/plan.ts'
import { VERSION } from '../version.ts'
import { resetCounters } from './reset-counters.ts'
import type { ServerOptions, ServerParts } from './server-parts.ts'

/** The admin API of a worker. `config` has a token. `explain`: as its mode responds. */
export function newAdminApi(config: ServerOptions, parts: ServerParts, explain: ExplainRequest): AdminApi {
  const { wrongTokens, adminLogouts, logger, clock } = parts
  const { adminToken, trustedProxies } = config
  const token = new AdminToken(adminToken!)
  const sessions = new AdminSessions(adminToken!, () => clock.wallMs(), adminLogouts)
  const access = new Access({ token, sessions, trustedProxies, wrongTokens, logger, nowMs: () => clock.nowMs() })
  return new AdminApi(access, [
    ...apiRoutes(config, parts, explain),
    eventsEndpoint(parts.eventStreams!, access),
    ...sessionEndpoints({ access, sessions, trustedProxies, logger }),
  ])
}

/** Everything below `/admin/v1/` that need not know who asks. */
function* apiRoutes(config: ServerOptions, parts: ServerParts, explain: ExplainRequest): Generator<ApiRoute> {
  const { engine, control, reservations } = parts
  yield statusRoute(config, parts)
  const plan = (): Plan | undefined => engine.plan
  const activity: PoliciesParts['activity'] = (policies) => control.ask('activity', policies)
  yield policiesEndpoint({ plan, activity, nameOf: reservations.nameOf })
  yield activityEndpoint({ plan, activity, recent: (since) => control.ask('recent_samples', since) })
  yield usageEndpoint({
    plan,
    isCounted: config.mode === 'reverse_proxy',
    usage: (rules) => control.ask('usage', rules),
    inspect: (name) => engine.inspect(name),
  })
  yield bundleEndpoint(() => control.ask('bundle', undefined))
  yield explainEndpoint(explain, reservations.nameOf)
  yield* counterRoutes(config, parts)
  yield* overrideRoutes(parts)
  yield topEndpoint({ ask: config.top ? (ask) => control.ask('top', ask) : undefined, plan: () => engine.plan })
  yield openapiEndpoint()
}

function statusRoute({ mode, redisMode }: ServerOptions, { control, storeStats, hasSharedStore }: ServerParts): ApiRoute {
  const redis = hasSharedStore && { mode: redisMode, isConnected: hasSharedStore }
  return statusEndpoint({ version: VERSION, mode, storeStats, redis, instance: () => control.ask('status', undefined) })
}

function* counterRoutes({ stateFile }: ServerOptions, { engine, control, logger, reservations }: ServerParts): Generator<ApiRoute> {
  const { nameOf } = reservations
  const plan = (): Plan | undefined => engine.plan
  yield* countersEndpoints({ plan, inspect: (name) => engine.inspect(name), nameOf })
  const save = async (): Promise<boolean> => stateFile === undefined || (await control.ask('save_state', undefined)).isSaved
  yield resetEndpoint({ plan, reset: (name) => resetCounters(engine, name), save, nameOf, logger })
}

function overrideRoutes({ engine, control, reservations }: ServerParts): Generator<ApiRoute> {
  return overrideEndpoints({
    plan: () => engine.plan,
    nameOf: reservations.nameOf,
    list: async () => readListed(await control.ask('list_overrides', undefined)),
    create: (order) => control.ask('create_override', order),
    end: (order) => control.ask('end_override', order),
  })
}

function* readListed(texts: readonly string[]): Generator<ListedOverride> {
  for (const text of texts) yield JSON.parse(text)
}
