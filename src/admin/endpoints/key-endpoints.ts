import { digestOf, type KeyLabels } from '../../callers/keys/issued-key.ts'
import type { Author, ChangeOrder, CreateOrder, KeyEnd, RevokeOrder } from '../../callers/keys/key-control.ts'
import { labelNameProblem, readKeyLabels } from '../../callers/keys/key-labels.ts'
import { dateTimeMs } from '../../text/formats.ts'
import { show } from '../../text/problem.ts'
import { ApiError } from '../api/api-error.ts'
import { readCount, readQuery, readReason, refuseUnknown } from '../api/api-request.ts'
import type { ApiRoute } from '../api/api-route.ts'
import type { KeyChangeRequest, KeyJson, KeyRequest, KeysAcknowledgement, NewKey, RevokedKey } from '../api/key-types.ts'

/** Which keys an operator wants to see. */
export interface KeyPageAsk {
  readonly labels: KeyLabels
  readonly after: string | undefined
  readonly limit: number
}

export interface KeyParts {
  /** Returns a page as JSON. */
  readonly list: (ask: KeyPageAsk) => Promise<string>
  /** These reject with an ApiError if there is no such key. */
  readonly find: (id: string) => Promise<KeyJson>
  readonly change: (order: ChangeOrder) => Promise<KeyJson>
  /** Resolves to the number of requests that were ended. */
  readonly revoke: (order: RevokeOrder) => Promise<number>
  readonly acknowledge: (author: Author) => Promise<void>
  readonly create: (order: CreateOrder) => Promise<NewKey>
}

const DEFAULT_LIMIT = 100
const MAX_LIMIT = 1000
const NO_STORE = ['Cache-Control', 'no-store']

/** The issued keys: listing, issuing, changing and revoking them. The key itself is in one response only, the one to the request that issued it. */
export function* keyEndpoints({ list, find, create, change, revoke, acknowledge }: KeyParts): Generator<ApiRoute> {
  yield {
    method: 'GET',
    path: 'keys',
    handle: async ({ query }) => ({ status: 200, text: await list(readPageAsk(query)) }),
  }
  yield {
    method: 'POST',
    path: 'keys',
    handle: async ({ query, body, actor }) => {
      readQuery(query, [])
      return { status: 201, json: await create(readCreateOrder(body, actor)), headers: NO_STORE }
    },
  }
  yield {
    method: 'GET',
    path: 'keys/',
    handle: async ({ rest, query }) => {
      readQuery(query, [])
      return { status: 200, json: await find(readId(rest)) }
    },
  }
  yield {
    method: 'PATCH',
    path: 'keys/',
    handle: async ({ rest, query, body, actor }) => {
      readQuery(query, [])
      return { status: 200, json: await change(readChangeOrder(readId(rest), body, actor)) }
    },
  }
  yield {
    method: 'DELETE',
    path: 'keys/',
    handle: async ({ rest, query, actor }) => {
      const { reason, keep_streams: keep } = readQuery(query, ['reason', 'keep_streams'])
      if (keep !== undefined && keep !== 'true' && keep !== 'false')
        throw new ApiError('bad_request', `keep_streams: expected true or false, got ${show(keep)}`)
      const order = { id: readId(rest), actor, reason: readReason(reason), keepsStreams: keep === 'true' }
      const json: RevokedKey = { streams_ended: await revoke(order) }
      return { status: 200, json }
    },
  }
  yield {
    method: 'POST',
    path: 'keys/acknowledge',
    handle: async ({ query, body, actor }) => {
      readQuery(query, [])
      refuseUnknown<KeysAcknowledgement>(body, ['reason'])
      await acknowledge({ actor, reason: readReason(body['reason']) })
      return { status: 204 }
    },
  }
}

function readId(text: string): string {
  if (/^[0-9a-f]{12}$/.test(text)) return text
  // Somebody may have pasted the key itself, which must not be repeated.
  if (text.startsWith('edge_'))
    throw new ApiError(
      'bad_request',
      'expected the id of a key, not the key itself, which belongs in no URL: revoke it if others could read it',
    )
  throw new ApiError('unknown_key', `there is no key ${show(text)}: an id has twelve hexadecimal digits`)
}

/** All parameters but `after` and `limit` are labels. */
function readPageAsk(query: URLSearchParams): KeyPageAsk {
  const names = [...new Set(query.keys())]
  const { after, limit, ...labels } = readQuery(query, names)
  for (const name of Object.keys(labels)) {
    const problem = labelNameProblem(name)
    if (problem !== undefined) throw new ApiError('bad_request', problem)
  }
  if (after !== undefined && !/^[0-9a-f]{12}$/.test(after))
    throw new ApiError('bad_request', `after: expected the id of a key, got ${show(after)}`)
  return { labels: labels as KeyLabels, after, limit: readCount('limit', limit, DEFAULT_LIMIT, MAX_LIMIT) }
}

type Body = Readonly<Record<string, unknown>>

function readCreateOrder(body: Body, actor: string): CreateOrder {
  refuseUnknown<KeyRequest>(body, ['labels', 'expires_at', 'reason', 'digest'])
  const reason = readReason(body['reason'])
  const { digest } = body
  if (digest !== undefined && (typeof digest !== 'string' || digestOf(digest) === undefined))
    throw new ApiError('bad_request', 'digest: expected the SHA-256 of a key, 43 characters in base64url')
  return { labels: readLabels(body['labels']), end: readEnd(body['expires_at']), digest, actor, reason }
}

function readChangeOrder(id: string, body: Body, actor: string): ChangeOrder {
  refuseUnknown<KeyChangeRequest>(body, ['labels', 'expires_at', 'reason'])
  const reason = readReason(body['reason'])
  const { labels, expires_at: end } = body
  if (labels === undefined && end === undefined) throw new ApiError('bad_request', 'nothing to change: expected labels or expires_at')
  return {
    id,
    labels: labels === undefined ? undefined : readLabels(labels),
    end: end === undefined ? undefined : readEnd(end),
    actor,
    reason,
  }
}

function readLabels(value: unknown): KeyLabels {
  const labels = readKeyLabels(value)
  if (typeof labels === 'string') throw new ApiError('bad_request', labels)
  return labels
}

const UNIT_MS: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }

function readEnd(value: unknown): KeyEnd {
  if (value === undefined || value === null) return 'never'
  const [, count, unit] = typeof value === 'string' ? (/^(\d{1,7})([smhd])$/.exec(value) ?? []) : []
  if (unit !== undefined && Number(count) > 0) return { inMs: Number(count) * UNIT_MS[unit]! }
  const atMs = typeof value === 'string' && /[Zz]$/.test(value) ? dateTimeMs(value) : Number.NaN
  if (!Number.isNaN(atMs)) return { atMs }
  throw new ApiError(
    'bad_until',
    `expires_at: expected a time in UTC such as 2026-01-31T12:00:00Z, a duration such as 12h or 90d, or null (edge keys: never); got ${show(value)}`,
  )
}
