import type { BodyFacts, CallerDigest } from '../engine/decide-options.ts'
import type { SentRequest } from '../engine/evaluation.ts'
import { isCredential } from '../policy/descriptor-key.ts'
import { Matches } from '../policy/index/routes.ts'
import { normalizeHost } from '../policy/patterns.ts'
import type { Plan, PlanPolicy } from '../policy/plan.ts'
import { bearerToken, claimText, readClaims, sentToken } from '../request/bearer.ts'
import { type CallerVerdict, isVerified } from '../request/caller.ts'
import { clientAddress, type TrustedProxies } from '../request/client-address.ts'
import { cookieValue, queryValue } from '../request/encoded-values.ts'
import { type FieldValue, REPEATED, type RequestView } from '../request/view.ts'
import { formatAddress, subjectText } from '../text/address.ts'
import { normalizePath } from '../text/path.ts'
import { countOf, type LoggedParts, MatchedParts, partsOfPlan } from './logged-parts.ts'

/** Above this many values, a line contains only what the policies covering its request read. A bundle may read thousands of fields in total. */
const MAX_READ_OF_ALL = 64

export interface DecisionLinesParts {
  readonly trustedProxies: TrustedProxies
  /** Replaces credentials. */
  readonly callerDigest: CallerDigest
}

/**
 * Writes decided requests as lines of JSON for `edge replay`. A line contains only what the bundle's rules read. A field that was repeated is written as a
 * list of two empty strings, because rules never use its values.
 */
export class DecisionLines {
  readonly #parts: DecisionLinesParts
  readonly #matches = new Matches<PlanPolicy>()
  #plan: Plan | undefined
  /** One of the two is set: if the bundle reads many fields, the fields of a line depend on the request. */
  #ofAll: LoggedParts | undefined
  #ofMatches: MatchedParts | undefined
  #second = Number.NaN
  #secondText = ''

  constructor(parts: DecisionLinesParts) {
    this.#parts = parts
  }

  /**
   * Writes one line. `body` holds the facts known about the request's body; `caller` is undefined if nobody looked for who sent it, `sent` if the request
   * had no route.
   */
  lineOf(plan: Plan, view: RequestView, body: BodyFacts, wallMs: number, caller?: CallerVerdict, sent?: SentRequest): string {
    const parts = this.#loggedParts(plan, view)
    const host = plan.routes.usesHosts && view.host !== '' ? `,"host":${JSON.stringify(view.host)}` : ''
    const client = parts.client === undefined ? undefined : this.#client(view, parts.client)
    const clientText = client === undefined ? '' : `,"client":"${client}"`
    const uri = JSON.stringify(loggedPath(view.uri) + loggedQuery(view.uri, parts))
    // Beside the model that was sent, the line has the one that was asked for.
    const headers = this.#headers(view, parts, plan.needsBody || sent?.modelSent !== undefined ? body : undefined)
    const context = contextOf(view, parts) + callerText(caller, parts) + (sent === undefined ? '' : sentText(sent))
    return `{"time":"${this.#time(wallMs)}","method":${JSON.stringify(view.method)},"uri":${uri}${host}${clientText}${headers}${context}}\n`
  }

  /** Formats as RFC 3339. The part up to the second is cached and rebuilt once a second. */
  #time(wallMs: number): string {
    const ms = Math.floor(wallMs)
    const second = Math.floor(ms / 1000)
    if (second !== this.#second) {
      this.#second = second
      this.#secondText = new Date(second * 1000).toISOString().slice(0, -'000Z'.length)
    }
    return `${this.#secondText}${String(ms - second * 1000).padStart(3, '0')}Z`
  }

  #loggedParts(plan: Plan, view: RequestView): LoggedParts {
    if (plan !== this.#plan) {
      const ofAll = partsOfPlan(plan)
      const isMuch = countOf(ofAll) > MAX_READ_OF_ALL
      this.#ofAll = isMuch ? undefined : ofAll
      this.#ofMatches = isMuch ? new MatchedParts(plan) : undefined
      this.#plan = plan
    }
    if (this.#ofAll !== undefined) return this.#ofAll
    const { routes } = plan
    const matches = this.#matches
    routes.match(normalizePath(view.uri), routes.usesHosts ? normalizeHost(view.host) : '', view.method.toUpperCase(), matches, '')
    return this.#ofMatches!.of(matches)
  }

  #client(view: RequestView, extent: 'whole' | 'network'): string | undefined {
    const chain = view.header('x-forwarded-for') as string | undefined // `header` joins the lines of this field
    const hops = view.peer === undefined ? chain : chain === undefined ? view.peer : `${chain}, ${view.peer}`
    const address = clientAddress(hops, this.#parts.trustedProxies)
    if (address === undefined) return undefined
    return extent === 'whole' ? formatAddress(address) : subjectText(address).replace('/64', '')
  }

  #headers(view: RequestView, { headers, digested, authorization, cookies }: LoggedParts, body: BodyFacts): string {
    const { callerDigest } = this.#parts
    let text = ''
    for (const name of headers) if (name !== 'cookie') text += fieldText(name, this.#header(view, name, digested.includes(name)))
    if (authorization !== undefined)
      text += fieldText('authorization', loggedAuthorization(view.header('authorization'), authorization, callerDigest))
    const isCookieRead = headers.includes('cookie')
    if (cookies.length > 0 || isCookieRead) text += fieldText('cookie', this.#cookie(view, isCookieRead, cookies))
    if (body !== undefined && body !== 'repeated_descriptor') {
      text += fieldText('x-edge-prompt-tokens', String(body.promptTokens))
      if (body.requestedTokens !== undefined) text += fieldText('x-edge-max-tokens', String(body.requestedTokens))
      if (body.hasUnseenPrompt === true) text += fieldText('x-edge-unseen-prompt', '1')
      text += fieldText('x-edge-model', body.model)
    }
    return text === '' ? '' : `,"headers":{${text.slice(1)}}`
  }

  #header(view: RequestView, name: string, isDigested: boolean): FieldValue {
    const value = view.header(name)
    return typeof value === 'string' && (isDigested || isCredential(`header:${name}`)) ? this.#parts.callerDigest([value]) : value
  }

  #cookie(view: RequestView, isWholeRead: boolean, names: readonly string[]): string | undefined {
    const { callerDigest } = this.#parts
    const field = view.header('cookie') as string | undefined // `header` joins the lines of this field
    if (!field) return undefined
    const cookies = names.flatMap((name) => {
      const value = cookieValue(field, name)
      if (value === REPEATED) return [`${name}=`, `${name}=`]
      return value ? [`${name}=${callerDigest([value])}`] : []
    })
    return [...(isWholeRead ? [callerDigest([field])] : []), ...cookies].join('; ') || undefined
  }
}

/** Field names are tokens (RFC 9110 5.6.2), which need no escaping in JSON. */
function fieldText(name: string, value: FieldValue): string {
  if (value === undefined) return ''
  return `,"${name}":${value === REPEATED ? '["",""]' : JSON.stringify(value)}`
}

const ABSOLUTE_FORM = /^[a-z][a-z0-9+.-]*:\/\/[^/]*/i
const NOT_ASCII = /[^\0-\x7f]/g

/** Returns the path as received, with non-ASCII bytes percent-encoded, and without the authority of an absolute URI, which may contain a password. */
function loggedPath(uri: string): string {
  const end = uri.search(/[?#]/)
  const path = end < 0 ? uri : uri.slice(0, end)
  const origin = path.startsWith('/') ? path : path.replace(ABSOLUTE_FORM, '')
  return origin.replace(NOT_ASCII, (char) => `%${(char.charCodeAt(0) & 0xff).toString(16).toUpperCase().padStart(2, '0')}`)
}

/** Returns a query string of only those parameters that rules read. */
function loggedQuery(uri: string, { queries }: LoggedParts): string {
  let text = ''
  for (const { encodedName, nameBytes } of queries) {
    const value = queryValue(uri, nameBytes)
    const times = value === REPEATED ? 2 : value === undefined ? 0 : 1
    const encoded = typeof value === 'string' ? encodeURIComponent(value.toWellFormed()) : ''
    for (let i = 0; i < times; i++) text += `${text === '' ? '?' : '&'}${encodedName}=${encoded}`
  }
  return text
}

function contextOf(view: RequestView, { contexts }: LoggedParts): string {
  const found = contexts.flatMap((name) => {
    const value = view.context?.(name)
    return typeof value === 'string' ? [[name, value]] : []
  })
  return found.length === 0 ? '' : `,"context":${JSON.stringify(Object.fromEntries(found))}`
}

/** Returns what rules read of a verified caller, or why nobody knows who it is. */
function callerText(caller: CallerVerdict | undefined, { labels, verifiedClaims }: LoggedParts): string {
  if (caller === undefined) return ''
  if (!isVerified(caller)) return `,"caller":{"problem":"${caller.problem}"}`
  const found: Record<string, unknown> = {}
  if (labels.includes('id')) found['id'] = caller.id
  const own = labels.flatMap((name) => (caller.labels.has(name) ? [[name, caller.labels.get(name)]] : []))
  if (own.length > 0) found['labels'] = Object.fromEntries(own)
  const claims = verifiedClaims.flatMap(({ claim, segments }) => {
    const text = caller.claims && claimText(caller.claims, claim, segments)
    return text === undefined ? [] : [[claim, text]]
  })
  if (claims.length > 0) found['claims'] = Object.fromEntries(claims)
  return `,"caller":${JSON.stringify(found)}`
}

/** Returns where the request went. The calls are listed if there was more than one, or none that was answered. Names of backends need no escaping. */
function sentText({ answeredBy, calls, modelSent }: SentRequest): string {
  const backend = answeredBy === undefined ? '' : `,"backend":"${answeredBy}"`
  const isPlain = answeredBy !== undefined && calls.length === 1
  const listed = calls.map((call) => `{"backend":"${call.backend}","outcome":"${call.outcome}"}`)
  const model = modelSent === undefined ? '' : `,"model_sent":${JSON.stringify(modelSent)}`
  return `${backend}${isPlain ? '' : `,"attempts":[${listed.join()}]`}${model}`
}

/** Stands for a token that no rule reads. */
const NO_TOKEN = 'claims'

/**
 * Returns an Authorization field that contains only what rules read: digests instead of credentials and, if the token is a JWT, only the claims that a rule
 * names, in an unsigned token. Returns undefined if it contains nothing that a rule reads.
 */
function loggedAuthorization(
  field: FieldValue,
  { hasCredential, claims }: NonNullable<LoggedParts['authorization']>,
  callerDigest: CallerDigest,
): FieldValue {
  if (typeof field !== 'string' || field === '') return field || undefined
  const token = hasCredential ? bearerToken(field) : sentToken(field)
  if (token === undefined) return hasCredential ? withScheme(field, callerDigest) : undefined
  if (token === REPEATED) return 'Bearer - -' // replayed as the ambiguous field it was
  const read = claims.length === 0 ? undefined : readClaims(token)
  const kept = claims.flatMap(({ claim, segments }) => {
    const text = read && claimText(read, claim, segments)
    return text === undefined ? [] : [[claim, text]]
  })
  if (kept.length === 0) return hasCredential ? `Bearer ${callerDigest([token])}` : undefined
  const payload = Buffer.from(JSON.stringify(Object.fromEntries(kept))).toString('base64url')
  return `Bearer ${hasCredential ? callerDigest([token]) : NO_TOKEN}.${payload}`
}

const SCHEME = /^[A-Za-z][A-Za-z0-9-]{0,31} /

/** Keeps the scheme in clear text, since its name is no secret. */
function withScheme(field: string, callerDigest: CallerDigest): string {
  const scheme = SCHEME.exec(field)?.[0] ?? ''
  return scheme + callerDigest([field])
}
