import { proxyStatus, type Reason } from '../engine/reasons.ts'
import { type HeaderList, headerValue } from '../http1/header-fields.ts'
import { endpointOf } from '../llm/endpoints.ts'
import { normalizePath } from '../text/path.ts'

/** The APIs whose clients understand errors of their own form alone; all others understand OpenAI's. */
type ErrorForm = 'openai' | 'anthropic' | 'google'

/** Returns the JSON of an error in the form of the API that `target` belongs to. `fields` are those of its response. */
export function llmErrorBody(target: string, code: Reason, message: string, fields: HeaderList): object {
  return BODIES[formOf(target)](code, message, fields)
}

/** Clients of Anthropic's Messages API recognise an error only by the type of its object. A gateway's prefix may come before the path. */
const ANTHROPIC_TARGET = /^[^?#]*\/v1\/messages(?:[/?#]|$)/
/** The path of Google's WebSockets. */
const GOOGLE_SOCKET = /BidiGenerateContent/i
/** All other methods of Google's APIs follow a colon. Without one, which most rejects are, nothing else is read. */
const COLON = /:|%3A/i

function formOf(target: string): ErrorForm {
  if (ANTHROPIC_TARGET.test(target)) return 'anthropic'
  if (GOOGLE_SOCKET.test(target)) return 'google'
  if (!COLON.test(target)) return 'openai'
  const { dialect, isPrediction } = endpointOf(normalizePath(target))
  if (dialect === 'anthropic') return 'anthropic'
  return dialect === 'gemini' || isPrediction === true ? 'google' : 'openai'
}

const BODIES: Readonly<Record<ErrorForm, (code: Reason, message: string, fields: HeaderList) => object>> = {
  openai: (code, message) => ({ error: openError(code, message) }),
  anthropic: (code, message) => ({ type: 'error', error: openError(code, message) }),
  google: googleError,
}

function openError(code: Reason, message: string): object {
  return { message, type: errorType(proxyStatus(code)), code }
}

function errorType(status: number): string {
  if (status === 429) return 'rate_limit_error'
  if (status === 401) return 'authentication_error'
  if (status === 403) return 'permission_error'
  if (status < 500) return 'invalid_request_error'
  return status === 502 || status === 504 ? 'backend_error' : 'service_unavailable'
}

/** Google's name of each status that a reason has. */
const GOOGLE_STATUSES: Readonly<Record<number, string>> = {
  400: 'INVALID_ARGUMENT',
  401: 'UNAUTHENTICATED',
  403: 'PERMISSION_DENIED',
  404: 'NOT_FOUND',
  408: 'DEADLINE_EXCEEDED',
  413: 'INVALID_ARGUMENT',
  426: 'FAILED_PRECONDITION',
  429: 'RESOURCE_EXHAUSTED',
  500: 'INTERNAL',
  502: 'UNAVAILABLE',
  503: 'UNAVAILABLE',
  504: 'DEADLINE_EXCEEDED',
}
const DETAIL_TYPE = 'type.googleapis.com/google.rpc'

/** Details have the reason, in capitals as Google writes them, and the time to wait, which its clients look for in the body. */
function googleError(code: Reason, message: string, fields: HeaderList): object {
  const status = proxyStatus(code)
  const retryAfter = headerValue(fields, 'retry-after')
  const details = [
    { '@type': `${DETAIL_TYPE}.ErrorInfo`, reason: code.toUpperCase(), domain: 'edge' },
    ...(retryAfter === undefined ? [] : [{ '@type': `${DETAIL_TYPE}.RetryInfo`, retryDelay: `${retryAfter}s` }]),
  ]
  return { error: { code: status, message, status: GOOGLE_STATUSES[status], details } }
}
