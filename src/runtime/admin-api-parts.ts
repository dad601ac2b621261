import { Access, type AdminGrant, AdminToken } from '../admin/api/access.ts'
import { AdminApi } from '../admin/api/admin-api.ts'
import { ApiError } from '../admin/api/api-error.ts'
import type { ApiRoute } from '../admin/api/api-route.ts'
import { activityEndpoint, type TopParts, topEndpoint } from '../admin/endpoints/activity-endpoints.ts'
import { BackendReport } from '../admin/endpoints/backend-report.ts'
import { backendsEndpoints, type RetryNote } from '../admin/endpoints/backends-endpoints.ts'
import { bundleEndpoints } from '../admin/endpoints/bundle-endpoints.ts'
import { callersEndpoint, knownCallersEndpoint } from '../admin/endpoints/callers-endpoint.ts'
import { countersEndpoints, type ResetNote, resetEndpoint, type UnknownReset } from '../admin/endpoints/counters-endpoints.ts'
import { eventEndpoints } from '../admin/endpoints/events-endpoints.ts'
import { explainEndpoint } from '../admin/endpoints/explain-endpoint.ts'
import { openapiEndpoint, statusEndpoint } from '../admin/endpoints/instance-endpoints.ts'
import { keyEndpoints } from '../admin/endpoints/key-endpoints.ts'
import { overrideEndpoints } from '../admin/endpoints/override-endpoints.ts'
import { type PoliciesParts, policiesEndpoint } from '../admin/endpoints/policies-endpoint.ts'
import { sessionEndpoints } from '../admin/endpoints/session-endpoints.ts'
import { usageEndpoint } from '../admin/endpoints/usage-endpoint.ts'
import type { ExplainRequest } from '../decide/request-explanation.ts'
import type { Engine } from '../engine/engine.ts'
import type { CounterName, Inspection } from '../engine/explain/inspection.ts'
import { VERSION } from '../files/package-files.ts'
import type { EndedOverride, ListedOverride } from '../overrides/override.ts'
import type { Plan } from '../policy/plan.ts'
import { placesEach } from '../proxy/backends/backend-slots.ts'
import { AdminSessions } from '../sessions/admin-sessions.ts'
import { LinkError } from '../store/redis/link/call.ts'
import { describeRedisAddress } from '../store/redis/link/redis-address.ts'
import { CounterFamily } from '../telemetry/metrics/metric-families.ts'
import type { ServerOptions, ServerParts } from './server-parts.ts'

/** Creates the admin API of a worker. `config` must have an admin token; `explain` must answer as the current mode does. */
export function newAdminApi(config: ServerOptions, parts: ServerParts, explain: ExplainRequest): AdminApi {
  const { wrongTokens, adminLogouts, logger, clock } = parts
  const { adminToken, adminReadToken, trustedProxies } = config
  const grant = (token: string, isReadOnly: boolean): AdminGrant => {
    return { token: new AdminToken(token), sessions: new AdminSessions(token, () => clock.wallMs(), adminLogouts), isReadOnly }
  }
  const grants = [grant(adminToken!, false), ...(adminReadToken === undefined ? [] : [grant(adminReadToken, true)])]
  const access = new Access({ grants, trustedProxies, wrongTokens, logger, nowMs: () => clock.nowMs() })
  return new AdminApi(access, [
    ...apiRoutes(config, parts, explain),
    ...eventEndpoints({
      streams: parts.eventStreams!,
      access,
      recent: (ask) => parts.control.ask('recent_events', ask),
      changes: (ask) => parts.control.ask('changes', ask),
      wallMs: () => clock.wallMs(),
    }),
    ...sessionEndpoints({ access, trustedProxies, logger }),
  ])
}

/** Routes below `/admin/v1/` that need not know who asks. */
function* apiRoutes(config: ServerOptions, parts: ServerParts, explain: ExplainRequest): Generator<ApiRoute> {
  const { engine, control, reservations } = parts
  const backends = backendReport(config, parts)
  yield statusRoute(config, parts, backends)
  // The retry is done and logged, whether or not the list of changes has it.
  const note = (retry: RetryNote): Promise<void> => control.ask('note_retry', retry).catch(() => {})
  yield* backendsEndpoints({ report: backends, logger: parts.logger, note })
  const plan = (): Plan | undefined => engine.plan
  const activity: PoliciesParts['activity'] = (policies) => control.ask('activity', policies)
  yield policiesEndpoint({ plan, activity, callerDigest: reservations.callerDigest })
  yield activityEndpoint({ plan, activity, recent: (ask) => control.ask('recent_samples', ask) })
  yield usageEndpoint({
    plan,
    isCounted: config.mode === 'reverse_proxy',
    usage: (rules) => control.ask('usage', rules),
    inspect: (name) => engine.inspect(name),
  })
  yield* bundleRoutes(parts)
  yield explainEndpoint(explain, reservations.callerDigest)
  yield* counterRoutes(config, parts)
  yield* overrideRoutes(config, parts)
  yield* keyEndpoints({
    list: (ask) => control.ask('list_keys', ask),
    find: (id) => control.ask('find_key', id),
    create: (order) => control.ask('create_key', order),
    change: (order) => control.ask('change_key', order),
    revoke: (order) => control.ask('revoke_key', order),
    acknowledge: (author) => control.ask('acknowledge_keys', author),
  })
  const top: TopParts['ask'] = config.top ? (ask) => control.ask('top', ask) : undefined
  yield topEndpoint({ ask: top, plan, wallMs: () => parts.clock.wallMs() })
  yield knownCallersEndpoint(plan)
  yield callersEndpoint({
    plan,
    wallMs: () => parts.clock.wallMs(),
    inspect: (name) => engine.inspect(name),
    overrides: () => listedOverrides(parts),
    top,
    callerDigest: reservations.callerDigest,
  })
  yield openapiEndpoint()
}

function bundleRoutes({ control, reservations, logger }: ServerParts): Generator<ApiRoute> {
  return bundleEndpoints({
    active: () => control.ask('bundle', undefined),
    list: () => control.ask('bundles', undefined),
    changes: (ask) => control.ask('bundle_changes', ask),
    text: (ask) => control.ask('bundle_text', ask),
    // The text is ready, and the log has who reads it.
    noteTextRead: (read) => control.ask('note_text_read', read).catch(() => {}),
    announce: (announced) => control.ask('announce_bundle', announced),
    callerDigest: reservations.callerDigest,
    logger,
  })
}

function backendReport({ mode, backendUrl: url }: ServerOptions, { engine, clock, slots, backendHealth }: ServerParts): BackendReport {
  const isProxy = mode === 'reverse_proxy'
  return new BackendReport({
    clock,
    routing: () => (isProxy ? engine.plan?.routing : undefined),
    states: (backends) => backendHealth.statesOf(backends),
    tryNow: (backend) => backendHealth.tryNow(backend),
    maxConnections: (count) => placesEach(slots.backend.total, count, url !== undefined),
    default: isProxy ? url && { url, places: slots.backend } : undefined,
  })
}

function statusRoute(
  { mode, redisMode, redis: address }: ServerOptions,
  { control, storeStats, hasSharedStore }: ServerParts,
  backends: BackendReport,
): ApiRoute {
  const redis = hasSharedStore && { mode: redisMode, address: describeRedisAddress(address!), isConnected: hasSharedStore }
  return statusEndpoint({ version: VERSION, mode, storeStats, redis, instance: () => control.ask('status', undefined), backends })
}

function* counterRoutes({ stateFile }: ServerOptions, { engine, control, logger, reservations }: ServerParts): Generator<ApiRoute> {
  const { callerDigest } = reservations
  const plan = (): Plan | undefined => engine.plan
  yield* countersEndpoints({ plan, inspect: (name) => engine.inspect(name), callerDigest })
  const save = async (): Promise<boolean> => stateFile === undefined || (await control.ask('save_state', undefined)).isSaved
  // The reset is done and logged, whether or not the list of changes has it.
  const note = (reset: ResetNote): Promise<void> => control.ask('note_reset', reset).catch(() => {})
  yield resetEndpoint({ plan, reset: (name) => resetCounters(engine, name), save, callerDigest, logger, note })
}

function overrideRoutes({ mode }: ServerOptions, parts: ServerParts): Generator<ApiRoute> {
  const { engine, control, reservations, metricMemory } = parts
  const openStreams = new CounterFamily(metricMemory, 'edge_proxy_open_streams')
  const streamCuts = new CounterFamily(metricMemory, 'edge_proxy_streams_cut_total')
  return overrideEndpoints({
    plan: () => engine.plan,
    callerDigest: reservations.callerDigest,
    list: () => listedOverrides(parts),
    listEnded: async () => readTexts<EndedOverride>(await control.ask('list_ended_overrides', undefined)),
    find: (id) => control.ask('find_override', id),
    preview: (order) => control.ask('preview_override', order),
    create: (order) => control.ask('create_override', order),
    edit: (order) => control.ask('edit_override', order),
    end: (order) => control.ask('end_override', order),
    activity: (policies) => control.ask('activity', policies),
    openStreams: () => (mode === 'reverse_proxy' ? ([...openStreams.values()][0]?.value ?? 0) : undefined),
    cutStreams: (policy, rule) =>
      [...streamCuts.values()].find(({ labels }) => labels['policy'] === policy && labels['rule'] === rule)?.value ?? 0,
  })
}

async function listedOverrides({ control }: ServerParts): Promise<Iterable<ListedOverride>> {
  return readTexts<ListedOverride>(await control.ask('list_overrides', undefined))
}

function* readTexts<Item>(texts: readonly string[]): Generator<Item> {
  for (const text of texts) yield JSON.parse(text)
}

/** Resets counters for an operator. If the outcome is unknown, returns why; if Redis did not do it, rejects with an ApiError. */
async function resetCounters(engine: Engine, name: CounterName): Promise<Inspection | UnknownReset> {
  try {
    return await engine.reset(name)
  } catch (error) {
    if (!(error instanceof LinkError)) throw error
    if (error.outcome === 'unknown') return { unknown: error.message }
    throw new ApiError('store_unavailable', `nothing was reset, because Redis did not accept it: ${error.message}`)
  }
}
