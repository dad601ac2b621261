import type { CallerDigest } from '../../engine/decide-options.ts'
import type {
  EditOrder,
  EndedOverride,
  EndOrder,
  ListedOverride,
  OverrideChange,
  OverrideOrder,
  PreviewedOverride,
} from '../../overrides/override.ts'
import type { Plan } from '../../policy/plan.ts'
import { ApiError } from '../api/api-error.ts'
import { readQuery, readReason } from '../api/api-request.ts'
import type { ApiRoute } from '../api/api-route.ts'
import { jsonWithList, LongResponses } from '../api/long-responses.ts'
import type * as json from '../api/types.ts'
import { effectJson, endedOverrideJson, overrideJson, targetJson } from './override-json.ts'
import { readOverrideEdit, readOverrideOrder } from './override-request.ts'
import type { PolicyActivity } from './policies-endpoint.ts'

export interface OverrideParts {
  readonly plan: () => Plan | undefined
  /** Digests credentials. */
  readonly callerDigest: CallerDigest
  readonly list: () => Promise<Iterable<ListedOverride>>
  readonly listEnded: () => Promise<Iterable<EndedOverride>>
  /** Rejects with an ApiError if there is no override with this id. */
  readonly find: (id: string) => Promise<ListedOverride>
  /** Checks an order as `create` or `edit` does, and changes nothing. */
  readonly preview: (order: OverrideOrder | EditOrder) => Promise<PreviewedOverride>
  readonly create: (order: OverrideOrder) => Promise<ListedOverride>
  readonly edit: (order: EditOrder) => Promise<ListedOverride>
  readonly end: (order: EndOrder) => Promise<void>
  /** Returns what each of these policies has decided in the last minute. */
  readonly activity: (policies: readonly string[]) => Promise<readonly PolicyActivity[]>
  /** Counts the open event streams and WebSockets of this instance; undefined if it is no reverse proxy. */
  readonly openStreams: () => number | undefined
  /** Counts the streams that blocks of this rule have ended at this instance since it started. */
  readonly cutStreams: (policy: string, rule: string) => number
}

/** The overrides, which change rules for a while: listing, setting, editing, ending and previewing them, and those that have ended. */
export function* overrideEndpoints(parts: OverrideParts): Generator<ApiRoute> {
  const { plan, callerDigest, list, listEnded, find, create, edit, end } = parts
  const long = new LongResponses()
  yield {
    method: 'GET',
    path: 'overrides',
    handle: ({ query, http }) => {
      readQuery(query, [])
      const active = plan()
      return long.serve(http, async ({ make }) => ({
        status: 200,
        text: await make(listSteps(await list(), (listed) => overrideJson(listed, active))),
      }))
    },
  }
  yield {
    method: 'GET',
    path: 'overrides/history',
    handle: ({ query, http }) => {
      readQuery(query, [])
      return long.serve(http, async ({ make }) => ({ status: 200, text: await make(listSteps(await listEnded(), endedOverrideJson)) }))
    },
  }
  yield {
    method: 'POST',
    path: 'overrides',
    handle: async ({ query, body, actor }) => {
      readQuery(query, [])
      const order = readOverrideOrder(body, actor, plan(), callerDigest)
      refuseIdleCut(body, parts)
      const streams = watchStreams(order, parts)
      const made = await create(order)
      return { status: 201, json: { ...overrideJson(made, plan()), ...streams() } }
    },
  }
  yield {
    method: 'PATCH',
    path: 'overrides/',
    handle: async ({ rest: id, query, body, actor }) => {
      readQuery(query, [])
      const { override } = await find(id)
      const order = readOverrideEdit(body, actor, override, plan())
      refuseIdleCut(body, parts)
      const streams = watchStreams({ subject: override.subject, change: order.change ?? override.change }, parts)
      const made = await edit(order)
      return { status: 200, json: { ...overrideJson(made, plan()), ...streams() } }
    },
  }
  yield {
    method: 'DELETE',
    path: 'overrides/',
    handle: async ({ rest: id, query, actor }) => {
      await end({ id, actor, reason: readReason(readQuery(query, ['reason']).reason) })
      return { status: 204 }
    },
  }
  yield* previewEndpoints(parts)
}

/** What POST and PATCH overrides would do. */
function* previewEndpoints(parts: OverrideParts): Generator<ApiRoute> {
  const { plan, callerDigest, find, preview } = parts
  yield {
    method: 'POST',
    path: 'overrides/preview',
    handle: async ({ query, body, actor }) => {
      readQuery(query, [])
      const order = readOverrideOrder(body, actor, plan(), callerDigest)
      refuseIdleCut(body, parts)
      return { status: 200, json: await previewJson(await preview(order), parts) }
    },
  }
  yield {
    method: 'POST',
    path: 'overrides/preview/',
    handle: async ({ rest: id, query, body, actor }) => {
      readQuery(query, [])
      const order = readOverrideEdit(body, actor, (await find(id)).override, plan())
      refuseIdleCut(body, parts)
      return { status: 200, json: await previewJson(await preview(order), parts) }
    },
  }
}

/** Yields after each override, because there may be many and each must be fitted to its rule. */
function* listSteps<Item>(overrides: Iterable<Item>, shown: (override: Item) => object): Generator<void, Buffer> {
  const texts: Buffer[] = []
  for (const override of overrides) {
    texts.push(Buffer.from(JSON.stringify(shown(override))))
    yield
  }
  return jsonWithList({}, 'overrides', texts)
}

async function previewJson({ override, before, replaces }: PreviewedOverride, parts: OverrideParts): Promise<json.OverridePreviewJson> {
  const { subject, change } = override
  const plan = parts.plan()
  return {
    ...targetJson(override),
    replaces: replaces ?? null,
    covers: await coverageOf(subject, parts),
    before: effectJson(plan, subject, before),
    after: effectJson(plan, subject, override),
    ...streamsOf(change, parts),
  }
}

async function coverageOf(subject: OverrideOrder['subject'], { plan, activity }: OverrideParts): Promise<json.OverrideCoverage> {
  if (subject === 'all_policies') return { callers: 'all', policies: plan()?.policies.length ?? 0, decided_last_minute: null }
  const [lately] = await activity([subject.policy])
  const decided = lately === undefined ? 0 : lately.allowed + lately.rejected
  return { callers: subject.values === undefined ? 'all' : 'one', policies: 1, decided_last_minute: decided }
}

/** Says what becomes of the streams that are open now, where an override blocks and there are streams. */
function streamsOf(change: OverrideChange, { openStreams }: OverrideParts): { readonly streams?: json.OpenStreamsJson } {
  const open = change.kind === 'block' ? openStreams() : undefined
  return open === undefined ? {} : { streams: { open, cut: change.kind === 'block' && change.cutsStreams === true } }
}

/** Returns a function that says, once the override is in force, how many streams were open before and how many of them it has ended. */
function watchStreams({ subject, change }: Pick<OverrideOrder, 'subject' | 'change'>, parts: OverrideParts): () => object {
  const { streams } = streamsOf(change, parts)
  if (streams === undefined) return () => ({})
  if (!streams.cut || subject === 'all_policies') return () => ({ streams })
  const before = parts.cutStreams(subject.policy, subject.rule)
  return () => ({ streams: { ...streams, ended: parts.cutStreams(subject.policy, subject.rule) - before } })
}

/** An operator who is told that streams are cut must be able to rely on it. */
function refuseIdleCut(body: Readonly<Record<string, unknown>>, { openStreams }: OverrideParts): void {
  if (body['cut_streams'] !== true || openStreams() !== undefined) return
  throw new ApiError(
    'bad_request',
    'cut_streams (--cut-streams): no streams pass through this instance, because its EDGE_MODE is decision_service. ' +
      'Leave it out: requests are blocked without it, and streams end in your gateway',
  )
}
