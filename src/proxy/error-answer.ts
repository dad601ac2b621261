import type { IncomingMessage, ServerResponse } from 'node:http'
import { resetSeconds } from '../decide/rate-limit-headers.ts'
import type { RateLimit, Rejected } from '../engine/decision.ts'
import { REASONS, type Reason } from '../engine/reasons.ts'
import type { HeaderList } from '../http/header-list.ts'
import { headerValue } from '../http/raw-headers.ts'
import { dropRest, LINGER_MS } from './unread-body.ts'

const SMALL_BODY_BYTES = 64 * 1024

/** Answers instead of the backend, with a body in the shape that LLM clients already read. */
export function respondError(res: ServerResponse, code: Reason, message: string, fields: HeaderList = []): void {
  const { status } = REASONS[code]
  const body = JSON.stringify({ error: { message, type: errorType(status), code } })
  // Where a request is ambiguous, nobody knows where its body ends.
  const rest = code === 'bad_request' || res.req.complete ? 'none' : unreadBody(res.req)
  // RFC 9112 9.6: what is left of the request stands between this answer and the next
  if (rest === 'large') res.shouldKeepAlive = false
  const own = fields.includes('X-Edge-Reason') ? [] : ['X-Edge-Reason', code]
  res.writeHead(status, [...fields, ...own, 'Content-Type', 'application/json', 'Content-Length', String(Buffer.byteLength(body))])
  if (rest !== 'none') dropRest(res.req, res, LINGER_MS)
  res.end(body)
}

/** What a rejected client reads. */
export function rejectMessage(decision: Rejected): string {
  return MESSAGES[decision.reason](decision)
}

const MESSAGES: Readonly<Record<Rejected['reason'], (decision: Rejected) => string>> = {
  token_bucket_exceeded: ({ limit }) => `Rate limit exceeded. Retry in ${retryAfterS(limit)} s.`,
  tpm_exceeded: (decision) => budgetMessage('per-minute', decision),
  tpd_exceeded: (decision) => budgetMessage('daily', decision),
}

function budgetMessage(period: string, { requested, available, canRetry, limit }: Rejected): string {
  const needs = `this request needs ${requested} tokens and ${available} are available`
  if (canRetry) return `The ${period} token budget is exceeded: ${needs}. Retry in ${retryAfterS(limit)} s.`
  return `The ${period} token budget can never cover this request: ${needs}, of ${limit.limitText} at most. Ask for fewer tokens.`
}

function retryAfterS(limit: RateLimit): number {
  return Math.max(1, resetSeconds(limit))
}

/** A small body is already on its way, and the connection can go on behind it. One that waits for `100 Continue` never comes. */
function unreadBody({ rawHeaders }: IncomingMessage): 'none' | 'small' | 'large' {
  const length = Number(headerValue(rawHeaders, 'content-length') ?? 0)
  if (headerValue(rawHeaders, 'transfer-encoding') !== undefined || length > SMALL_BODY_BYTES) return 'large'
  if (length === 0) return 'none'
  return headerValue(rawHeaders, 'expect') === undefined ? 'small' : 'large'
}

function errorType(status: number): string {
  if (status === 429) return 'rate_limit_error'
  if (status < 500) return 'invalid_request_error'
  return status === 502 || status === 504 ? 'backend_error' : 'service_unavailable'
}
