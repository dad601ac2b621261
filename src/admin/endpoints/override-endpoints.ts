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
import { readQuery, readReason } from '../api/api-request.ts'
import { type ApiRoute, jsonWithList, SlicedTexts } from '../api/api-route.ts'
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
}

/** The overrides, which change rules for a while: listing, setting, editing, ending and previewing them, and those that have ended. */
export function* overrideEndpoints(parts: OverrideParts): Generator<ApiRoute> {
  const { plan, callerDigest, list, listEnded, find, create, edit, end } = parts
  const texts = new SlicedTexts()
  yield {
    method: 'GET',
    path: 'overrides',
    handle: async ({ query }) => {
      readQuery(query, [])
      const active = plan()
      return { status: 200, text: await texts.make(listSteps(await list(), (listed) => overrideJson(listed, active))) }
    },
  }
  yield {
    method: 'GET',
    path: 'overrides/history',
    handle: async ({ query }) => {
      readQuery(query, [])
      return { status: 200, text: await texts.make(listSteps(await listEnded(), endedOverrideJson)) }
    },
  }
  yield {
    method: 'POST',
    path: 'overrides',
    handle: async ({ query, body, actor }) => {
      readQuery(query, [])
      const order = readOverrideOrder(body, actor, plan(), callerDigest)
      const streams = streamsOf(order.change, parts)
      return { status: 201, json: { ...overrideJson(await create(order), plan()), ...streams } }
    },
  }
  yield {
    method: 'PATCH',
    path: 'overrides/',
    handle: async ({ rest: id, query, body, actor }) => {
      readQuery(query, [])
      const { override } = await find(id)
      const order = readOverrideEdit(body, actor, override, plan())
      const streams = streamsOf(order.change ?? override.change, parts)
      return { status: 200, json: { ...overrideJson(await edit(order), plan()), ...streams } }
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
      return { status: 200, json: await previewJson(await preview(readOverrideOrder(body, actor, plan(), callerDigest)), parts) }
    },
  }
  yield {
    method: 'POST',
    path: 'overrides/preview/',
    handle: async ({ rest: id, query, body, actor }) => {
      readQuery(query, [])
      const order = readOverrideEdit(body, actor, (await find(id)).override, plan())
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
