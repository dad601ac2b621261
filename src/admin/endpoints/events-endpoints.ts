import type { IncomingMessage } from 'node:http'
import { fieldValue } from '../../http1/header-fields.ts'
import { PUBLISHED_EVENTS } from '../../telemetry/events/published-events.ts'
import { dateTimeMs } from '../../text/formats.ts'
import { show } from '../../text/problem.ts'
import { KnownWords } from '../../text/suggest.ts'
import type { Access } from '../api/access.ts'
import { ApiError } from '../api/api-error.ts'
import { readCount, readQuery } from '../api/api-request.ts'
import type { ApiRoute } from '../api/api-route.ts'
import { jsonWithList } from '../api/long-responses.ts'
import type { EventStreams, EventsAsk, StreamWish } from './event-streams.ts'

/** The newest of the wanted events, oldest first. */
export interface EventsList {
  readonly sinceMs: number
  /** False if events since then are missing: there was no room for them, or there were more than asked for. */
  readonly isComplete: boolean
  /** Each is JSON text. */
  readonly lines: readonly string[]
}

/** The newest changes first. */
export interface ChangesList {
  readonly sinceMs: number
  /** False if changes since then are missing: there was no room for them, or there were more than asked for. */
  readonly isComplete: boolean
  /** Each is JSON text. */
  readonly changes: readonly string[]
}

interface EventParts {
  readonly streams: EventStreams
  readonly access: Access
  readonly recent: (ask: EventsAsk & { readonly limit: number }) => Promise<EventsList>
  readonly changes: (ask: { readonly sinceMs: number | undefined; readonly limit: number }) => Promise<ChangesList>
  readonly wallMs: () => number
}

const DEFAULT_EVENTS = 500
const MAX_EVENTS = 2000
const DEFAULT_CHANGES = 100
const MAX_CHANGES = 500

/** GET events, a stream of events; GET events/recent, those of the last hour; GET changes, the last changes by operators. */
export function* eventEndpoints({ streams, access, recent, changes, wallMs }: EventParts): Generator<ApiRoute> {
  yield {
    method: 'GET',
    path: 'events',
    handle: async ({ query, http }) => {
      const wish = readWish(query, http, wallMs())
      await streams.claim()
      return { stream: (res) => streams.add(res, wish, () => access.isLasting(http)) }
    },
  }
  yield {
    method: 'GET',
    path: 'events/recent',
    handle: async ({ query }) => {
      const { event, since, limit } = readQuery(query, ['event', 'since', 'limit'])
      const ask = { names: readNames(event), sinceMs: readSince(since, wallMs()) }
      const { sinceMs, isComplete, lines } = await recent({ ...ask, limit: readCount('limit', limit, DEFAULT_EVENTS, MAX_EVENTS) })
      return { status: 200, text: listText(sinceMs, isComplete, 'events', lines) }
    },
  }
  yield {
    method: 'GET',
    path: 'changes',
    handle: async ({ query }) => {
      const { since, limit } = readQuery(query, ['since', 'limit'])
      const ask = { sinceMs: readSince(since, wallMs()), limit: readCount('limit', limit, DEFAULT_CHANGES, MAX_CHANGES) }
      const { sinceMs, isComplete, changes: texts } = await changes(ask)
      return { status: 200, text: listText(sinceMs, isComplete, 'changes', texts) }
    },
  }
}

function listText(sinceMs: number, isComplete: boolean, name: string, texts: readonly string[]): Buffer {
  const members = { since: new Date(sinceMs).toISOString(), complete: isComplete }
  return jsonWithList(
    members,
    name,
    texts.map((text) => Buffer.from(text)),
  )
}

/** A client that reconnects continues after the last event that it has, whatever `since` says. */
function readWish(query: URLSearchParams, { rawHeaders }: IncomingMessage, wallMs: number): StreamWish {
  const { event, since } = readQuery(query, ['event', 'since'])
  const names = readNames(event)
  const sinceMs = readSince(since, wallMs)
  const after = readLastId(fieldValue(rawHeaders, 'last-event-id'))
  return { names, kept: sinceMs === undefined && after === undefined ? undefined : { names, sinceMs, after } }
}

function readLastId(value: string | symbol | undefined): number | undefined {
  if (value === undefined) return undefined
  if (typeof value === 'string' && /^\d{1,16}$/.test(value) && Number.isSafeInteger(Number(value))) return Number(value)
  throw new ApiError('bad_request', 'Last-Event-ID: expected the id of an event, once')
}

const SHOWN_UNKNOWN = 5

/** Reads names of events, and first words of names: `bundle` means all events that begin with `bundle_`. @public because a test measures it in the build. */
export function readNames(text: string | undefined): readonly string[] | undefined {
  if (text === undefined) return undefined
  const asked = [...new Set(text.split(','))]
  const named = asked.map((name) => (PUBLISHED_EVENTS.has(name) ? [name] : beginningWith(name)))
  const unknown = asked.filter((_, i) => named[i]!.length === 0)
  if (unknown.length === 0) return [...new Set(named.flat())]
  const more = unknown.length > SHOWN_UNKNOWN ? `, and ${unknown.length - SHOWN_UNKNOWN} more` : ''
  const known = new KnownWords([...PUBLISHED_EVENTS, ...FIRST_WORDS.keys()])
  const shown = unknown.slice(0, SHOWN_UNKNOWN).map((name) => {
    const meant = known.closest(name)
    return meant === undefined ? show(name) : `${show(name)} (did you mean ${show(meant)}?)`
  })
  throw new ApiError('bad_request', `event: there is no event ${shown.join(', ')}${more}`)
}

const FIRST_WORDS = new Map<string, string[]>()
for (const name of PUBLISHED_EVENTS) {
  const word = name.slice(0, Math.max(0, name.indexOf('_')))
  FIRST_WORDS.set(word, [...(FIRST_WORDS.get(word) ?? []), name])
}
FIRST_WORDS.delete('')

function beginningWith(word: string): readonly string[] {
  return FIRST_WORDS.get(word) ?? []
}

const UNIT_MS: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }
const AGO = /^(\d{1,9})([smhd])$/
const UTC = /(?:Z|[+-]00:00)$/i

/** Reads a time, or how long ago it was. @public because a test measures it in the build. */
export function readSince(text: string | undefined, wallMs: number): number | undefined {
  if (text === undefined) return undefined
  const [, count, unit] = AGO.exec(text) ?? []
  const sinceMs = unit === undefined ? (UTC.test(text) ? dateTimeMs(text) : Number.NaN) : wallMs - Number(count) * UNIT_MS[unit]!
  if (!Number.isNaN(sinceMs)) return Math.max(0, sinceMs)
  const expected = 'expected a duration such as 90s, 30m, 2h or 7d, or a time in UTC such as 2026-01-31T12:00:00Z'
  throw new ApiError('bad_request', `since: ${expected}, got ${show(text)}`)
}
