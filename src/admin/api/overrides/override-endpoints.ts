import type { CallerDigest } from '../../../engine/caller-digest.ts'
import type { EndOrder, ListedOverride, OverrideOrder } from '../../../overrides/override-order.ts'
import { overriddenRule } from '../../../policy/overridden-rule.ts'
import type { Plan } from '../../../policy/plan.ts'
import type { Rule } from '../../../policy/schema.ts'
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
  readonly callerDigest: CallerDigest
  readonly list: () => Promise<Iterable<ListedOverride>>
  readonly create: (order: OverrideOrder) => Promise<ListedOverride>
  readonly end: (order: EndOrder) => Promise<void>
  /** What is wrong with limits that are set for a rule, in sentences. */
  readonly checkSet: (rule: Rule, fields: Readonly<Record<string, unknown>>) => Promise<readonly string[]>
}

/** GET, POST and DELETE overrides: what operators change for a while. */
export function* overrideEndpoints(parts: OverrideParts): Generator<ApiRoute> {
  const { plan, callerDigest, list, create, end } = parts
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
      const request = readOverrideRequest(body, actor, plan(), callerDigest)
      await refuseUnfit(request, parts)
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

async function refuseUnfit({ rule, order: { change } }: OverrideRequest, { checkSet }: OverrideParts): Promise<void> {
  if (rule === undefined) return
  const problems = change.kind === 'set' ? await checkSet(rule.source, change.fields) : []
  if (problems.length > 0) throw new ApiError('bad_request', problems.join('; '))
  const overridden = overriddenRule(rule, change)
  if (typeof overridden === 'string') throw new ApiError('bad_request', overridden)
}
