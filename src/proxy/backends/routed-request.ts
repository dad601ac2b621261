import type { RouteProblem } from '../../engine/decision.ts'
import { endpointOf } from '../../llm/endpoints.ts'
import type { LlmRequest } from '../../llm/llm-request.ts'
import { withModel } from '../../llm/replace-model.ts'
import type { Choice, PlannedRoute } from '../../policy/routes/routing.ts'
import { renderHeader, type SecretValues } from '../../secrets/header-template.ts'
import { normalizePath } from '../../text/path.ts'
import { codingOf } from '../body/body-scan.ts'
import type { ReadBody } from '../body/request-body.ts'
import { type ProxiedRequest, refusalOf } from '../proxied-request.ts'

const TRACES = 'the response to TRACE would show the credential of its backend'

/** What a backend of a route gets instead of what the client sent. */
export interface RoutedParts {
  readonly host: string
  readonly target: string
  /** The body, if it was read. */
  readonly pieces: readonly Buffer[] | undefined
  /** The backend's own header fields: names in lower case, and values. */
  readonly fields: readonly (readonly [name: string, value: string])[]
}

/** A body, as far as it matters where it is sent. */
type SentBody = Pick<ReadBody, 'bytes' | 'isPartial' | 'llm'>

/** Returns why a request cannot be sent as its route says; undefined if it can. The body has been read if the route needs it. */
export function routeProblem(request: ProxiedRequest, route: PlannedRoute, body: SentBody | undefined): RouteProblem | undefined {
  if (routeRefusal(request, route) !== undefined) return 'bad_request'
  if (route.models.length === 0) return undefined
  // What a WebSocket asks for is in its query or its messages, where nothing is replaced.
  if (request.isUpgrade) return 'model_not_replaceable'
  if (!asksForModel(request, body)) return undefined
  if (body === undefined || body.isPartial || typeof body.llm !== 'object') return 'model_not_replaceable'
  const { target } = request
  const given = { target, body: body.bytes, isPlain: isPlain(request), llm: body.llm }
  return route.models.every((model) => withModel(given, model) !== 'model_not_replaceable') ? undefined : 'model_not_replaceable'
}

/** Returns why the route's backends get no such request, in words: they might read its target in two ways, or return the credential that they get. */
export function routeRefusal(request: ProxiedRequest, { group, fallback }: PlannedRoute): string | undefined {
  return refusalBy(group, request) ?? refusalBy(fallback, request)
}

function refusalBy(choices: readonly Choice[], request: ProxiedRequest): string | undefined {
  for (const { backend } of choices) {
    // RFC 9110 9.3.8: the response to TRACE is the request as it arrived.
    if (request.method === 'TRACE' && backend.hasCredential) return TRACES
    const refusal = refusalOf(request, backend.basePath)
    if (refusal !== undefined) return refusal
  }
  return undefined
}

/** Whether there is a model that must be replaced. A request without a body whose path names none, such as `GET /v1/models`, passes as it came. */
function asksForModel({ target }: ProxiedRequest, body: SentBody | undefined): boolean {
  return body === undefined || body.isPartial || body.bytes.length > 0 || endpointOf(normalizePath(target)).model !== undefined
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
  const sent = model !== undefined && asksForModel(request, body) ? replaced(request, body!, model, inserted) : undefined
  const target = sent?.target ?? request.target
  const pieces = sent?.pieces ?? (body && [body.bytes])
  return { host, target: target === '*' ? '*' : `${backend.basePath}${target}`, pieces, fields }
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
