import type { RouteProblem } from '../../engine/decision.ts'
import type { LlmRequest } from '../../llm/llm-request.ts'
import { withModel } from '../../llm/replace-model.ts'
import type { Choice, PlannedRoute } from '../../policy/routes/routing.ts'
import { renderHeader, type SecretValues } from '../../secrets/header-template.ts'
import { codingOf } from '../body/body-scan.ts'
import type { ReadBody } from '../body/request-body.ts'
import { type ProxiedRequest, refusalOf } from '../proxied-request.ts'

/** What a backend of a route gets instead of what the client sent. */
export interface RoutedParts {
  readonly host: string
  readonly target: string
  /** The body, if it was read. */
  readonly bytes: Buffer | undefined
  /** The backend's own header fields: names in lower case, and values. */
  readonly fields: readonly (readonly [name: string, value: string])[]
}

/** Returns why a request cannot be sent as its route says; undefined if it can. The body has been read if the route needs it. */
export function routeProblem(
  request: ProxiedRequest,
  { group, fallback, models }: PlannedRoute,
  body: Omit<ReadBody, 'release'> | undefined,
): RouteProblem | undefined {
  const { target } = request
  if ([...group, ...fallback].some(({ backend }) => refusalOf(request, backend.basePath) !== undefined)) return 'bad_request'
  if (models.length === 0) return undefined
  const llm = body?.llm
  if (body === undefined || body.isPartial || typeof llm !== 'object') return 'model_not_replaceable'
  const given = { target, body: body.bytes, isPlain: isPlain(request), llm }
  // Whether a body can be changed does not depend on the new model; a path may not be able to name it.
  const canReplace = models.every(
    (model, i) => typeof withModel(i === 0 || body.bytes.length === 0 ? given : pathOf(given), model) === 'object',
  )
  return canReplace ? undefined : 'model_not_replaceable'
}

/** A body of one model is as good as a large one to find out whether the path can name another. */
function pathOf<Given extends { readonly body: Buffer; readonly llm: LlmRequest }>(given: Given): Given {
  const name = Buffer.from('{"model":"x"}')
  return { ...given, isPlain: true, body: name, llm: { ...given.llm, modelsAt: given.llm.modelsAt?.length === 0 ? [] : [8] } }
}

/** Returns what the backend of this choice gets. `inserted` tells how the body differs from the one that was read. */
export function routedParts(
  request: ProxiedRequest,
  { backend, model }: Choice,
  body: ReadBody | undefined,
  inserted: Insertion | undefined,
  secrets: SecretValues,
): RoutedParts {
  const fields = backend.headers.map(({ name, parts }) => [name, renderHeader(parts, secrets)] as const)
  const { host } = backend.url
  const sent = model === undefined ? undefined : replaced(request, body!, model, inserted)
  const target = sent?.target ?? request.target
  return { host, target: target === '*' ? '*' : `${backend.basePath}${target}`, bytes: sent?.body ?? body?.bytes, fields }
}

/** Bytes that were added to a body after it was read. */
export interface Insertion {
  /** Positions behind this one have moved. */
  readonly at: number
  readonly length: number
}

function replaced(request: ProxiedRequest, { bytes, llm }: ReadBody, model: string, inserted: Insertion | undefined) {
  const read = llm as LlmRequest
  const modelsAt = inserted === undefined ? read.modelsAt : read.modelsAt?.map((at) => (at > inserted.at ? at + inserted.length : at))
  const sent = withModel({ target: request.target, body: bytes, isPlain: isPlain(request), llm: { ...read, modelsAt } }, model)
  if (typeof sent === 'string') throw new Error('a model could not be replaced, although its route was chosen')
  return sent
}

function isPlain(request: ProxiedRequest): boolean {
  return codingOf(request.header('content-encoding')) === 'identity'
}
