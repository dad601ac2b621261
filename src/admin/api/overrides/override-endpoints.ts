import type { CallerDigest } from '../../../engine/decide-options.ts'
import type { EndOrder, ListedOverride, OverrideOrder } from '../../../overrides/override.ts'
import type { Plan } from '../../../policy/plan.ts'
import { readQuery, readReason } from '../api-request.ts'
import { type ApiRoute, jsonWithList, SlicedTexts } from '../api-route.ts'
import { overrideJson } from './override-json.ts'
import { readOverrideRequest } from './override-request.ts'

export interface OverrideParts {
  readonly plan: () => Plan | undefined
  /** Converts credentials to digests. */
  readonly callerDigest: CallerDigest
  readonly list: () => Promise<Iterable<ListedOverride>>
  readonly create: (order: OverrideOrder) => Promise<ListedOverride>
  readonly end: (order: EndOrder) => Promise<void>
}

/** GET, POST and DELETE overrides: temporary changes by operators. */
export function* overrideEndpoints({ plan, callerDigest, list, create, end }: OverrideParts): Generator<ApiRoute> {
  const texts = new SlicedTexts()
  yield {
    method: 'GET',
    path: 'overrides',
    handle: async ({ query }) => {
      readQuery(query, [])
      return { status: 200, text: await texts.make(listSteps(await list(), plan())) }
    },
  }
  yield {
    method: 'POST',
    path: 'overrides',
    handle: async ({ body, actor }) => {
      const { order } = readOverrideRequest(body, actor, plan(), callerDigest)
      return { status: 201, json: overrideJson(await create(order), plan()) }
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
}

/** Works in steps, because there may be many overrides, and each has to be parsed and fitted to its rule. */
function* listSteps(overrides: Iterable<ListedOverride>, plan: Plan | undefined): Generator<void, Buffer> {
  const texts: Buffer[] = []
  for (const listed of overrides) {
    texts.push(Buffer.from(JSON.stringify(overrideJson(listed, plan))))
    yield
  }
  return jsonWithList({}, 'overrides', texts)
}
