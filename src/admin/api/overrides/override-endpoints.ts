import type { NameOf } from '../../../engine/name-of.ts'
import type { EndOrder, ListedOverride, OverrideOrder } from '../../../overrides/override-order.ts'
import { overriddenRule } from '../../../policy/overridden-rule.ts'
import type { Plan } from '../../../policy/plan.ts'
import { ApiError } from '../api-error.ts'
import type { ApiRoute } from '../api-route.ts'
import { jsonWithList } from '../json-list.ts'
import { readQuery } from '../query.ts'
import { readReason } from '../reason.ts'
import { SlicedTexts } from '../sliced-texts.ts'
import { overrideJson } from './override-json.ts'
import { type OverrideRequest, readOverrideRequest } from './override-request.ts'

export interface OverrideParts {
  readonly plan: () => Plan | undefined
  /** Digests credentials. */
  readonly nameOf: NameOf
  readonly list: () => Promise<Iterable<ListedOverride>>
  readonly create: (order: OverrideOrder) => Promise<ListedOverride>
  readonly end: (order: EndOrder) => Promise<void>
}

/** GET, POST and DELETE overrides: what operators change for a while. */
export function* overrideEndpoints({ plan, nameOf, list, create, end }: OverrideParts): Generator<ApiRoute> {
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
      const request = readOverrideRequest(body, actor, plan(), nameOf)
      refuseUnfit(request)
      return { status: 201, json: overrideJson(await create(request.order), plan()) }
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

/** There may be many, and each has to be read and fitted to its rule. */
function* listSteps(overrides: Iterable<ListedOverride>, plan: Plan | undefined): Generator<void, Buffer> {
  const texts: Buffer[] = []
  for (const listed of overrides) {
    texts.push(Buffer.from(JSON.stringify(overrideJson(listed, plan))))
    yield
  }
  return jsonWithList({}, 'overrides', texts)
}

function refuseUnfit({ rule, order: { change } }: OverrideRequest): void {
  const overridden = rule && overriddenRule(rule, change)
  if (typeof overridden === 'string') throw new ApiError('bad_request', overridden)
}
