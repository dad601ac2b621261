import { resetSeconds } from '../decide/rate-limit-fields.ts'
import type { RateLimit, Rejected } from '../engine/decision.ts'
import { proxyStatus, type Reason } from '../engine/reasons.ts'
import { type HeaderList, headerValue } from '../http1/header-fields.ts'
import { type Downstream, LINGER_MS, linesOf } from './downstream.ts'
import { llmErrorBody } from './error-body.ts'

const SMALL_BODY_BYTES = 64 * 1024

/** Responds instead of the backend, with a body in a shape that LLM clients already understand. */
export function respondError(downstream: Downstream, code: Reason, message: string, fields: HeaderList = []): void {
  const status = proxyStatus(code)
  const body = Buffer.from(JSON.stringify(llmErrorBody(downstream.received.target, code, message, fields)))
  // Nobody knows where the body of an ambiguous request ends.
  const rest = code === 'bad_request' ? 'none' : unreadBody(downstream)
  // RFC 9112 9.6: the rest of the request comes before the next one, and is too large to wait for
  if (rest === 'large') downstream.closeWhenDone()
  const text = `${linesOf(errorFields(code, fields))}Content-Length: ${body.length}\r\n`
  downstream.head(status, undefined, { text, hasDate: false, hasLength: true })
  if (rest !== 'none') downstream.dropBody(LINGER_MS)
  downstream.end(body, [])
  downstream.trace?.respond(status, code)
}

/** Returns the header fields of an error response, without its length. `fields` are those of the decision. */
export function errorFields(code: Reason, fields: HeaderList): HeaderList {
  const own = fields.includes('X-Edge-Reason') ? [] : ['X-Edge-Reason', code]
  // RFC 9110 15.5.22: the client is told what to use instead
  const instead = code === 'websocket_not_counted' ? ['Upgrade', 'HTTP/1.1', 'Connection', 'Upgrade, close'] : []
  return [...fields, ...own, ...instead, 'Content-Type', 'application/json']
}

/** Returns the message for a rejected client. `wallMs` is the time now. */
export function rejectMessage(decision: Rejected, wallMs: number): string {
  return MESSAGES[decision.reason](decision, decision.limit === undefined ? '' : retryText(decision.limit, wallMs))
}

/** `retry` is the sentence that says when to try again. */
const MESSAGES: Readonly<Record<Rejected['reason'], (decision: Rejected, retry: string) => string>> = {
  blocked: ({ rule }) => rule?.block?.message ?? 'Access is blocked.',
  token_bucket_exceeded: (decision, retry) => requestsMessage('Rate limit', decision, retry),
  quota_exceeded: (decision, retry) => requestsMessage('Quota', decision, retry),
  tpm_exceeded: (decision, retry) => budgetMessage('per-minute', decision, retry),
  tpd_exceeded: (decision, retry) => budgetMessage('daily', decision, retry),
  concurrency_exceeded: ({ limit }, retry) => `Too many requests in flight: at most ${limit!.limitText} at a time. ${retry}`,
  budget_exceeded: moneyMessage,
}

const RESERVED = 'is reserved by requests in flight, which give back what they do not use'

function requestsMessage(what: string, { requested, canRetry, limit }: Rejected, retry: string): string {
  if (canRetry) return `${what} exceeded. ${retry}`
  return `${what} exceeded: this request costs ${requested}, and the limit is ${limit!.limitText}. It can never pass.`
}

function budgetMessage(period: string, { requested, available, canRetry, awaitsSettlement, limit }: Rejected, retry: string): string {
  const needs = `this request needs ${requested} tokens and ${available} are available`
  if (awaitsSettlement) return `The ${period} token budget ${RESERVED}: ${needs}. ${retry}`
  if (canRetry) return `The ${period} token budget is exceeded: ${needs}. ${retry}`
  return `The ${period} token budget can never cover this request: ${needs}, of ${limit!.limitText} at most. Ask for fewer tokens.`
}

function moneyMessage({ requested, available, canRetry, awaitsSettlement, limit }: Rejected, retry: string): string {
  const needs = `this request may cost ${money(requested)} and ${money(available)} is left`
  if (awaitsSettlement) return `The budget ${RESERVED}: ${needs}. ${retry}`
  if (canRetry) return `The budget is exceeded: ${needs}. ${retry}`
  return `The budget can never cover this request: ${needs}, of ${money(Number(limit!.limitText))} at most. Ask for fewer tokens.`
}

/** Formats hundredths of a unit as units, with as many decimals as they have. */
function money(hundredths: number): string {
  const text = (hundredths / 100).toFixed(9)
  let end = text.length
  while (text[end - 1] === '0') end--
  return text.slice(0, text[end - 1] === '.' ? end - 1 : end)
}

/** Waits longer than this are hard to read in seconds, so the message also has the date. */
const LONG_WAIT_S = 3600
/** RFC 3339 cannot express later times. */
const LAST_DATE_MS = Date.UTC(9999, 11, 31)

/** The date is rounded, because the clock has moved on since the decision: a window should still end on the hour. */
function retryText(limit: RateLimit, wallMs: number): string {
  const seconds = Math.max(1, resetSeconds(limit))
  const atMs = Math.round((wallMs + limit.resetMs) / 1000) * 1000
  if (seconds <= LONG_WAIT_S || !(atMs < LAST_DATE_MS)) return `Retry in ${seconds} s.`
  return `Retry in ${seconds} s, at ${new Date(atMs).toISOString().replace('.000Z', 'Z')}.`
}

/**
 * Tells how much of the body is unread. A small body is already on its way, and the connection can be reused after it. One that waits for `100
 * Continue` never comes, so it counts as large.
 */
function unreadBody(downstream: Downstream): 'none' | 'small' | 'large' {
  const { fields } = downstream.received
  const length = Number(headerValue(fields, 'content-length') ?? 0)
  const isChunked = headerValue(fields, 'transfer-encoding') !== undefined
  if ((length === 0 && !isChunked) || downstream.body.isRead) return 'none'
  if (isChunked || length > SMALL_BODY_BYTES) return 'large'
  return headerValue(fields, 'expect') === undefined ? 'small' : 'large'
}
