import type { CallerValues, PolicyPage, SelectorJson } from '../../src/admin/api/types.ts'
import { ask } from '../api.ts'
import { isCredential, shownValue, typedValue } from '../caller-values.ts'
import { addressOf } from '../navigation.ts'
import { policiesPath } from '../policies.ts'
import { actor } from '../session.ts'
import type { AskedRequest } from './asked-request.ts'

/** A request that another view made up for a caller, for the form. */
export interface DraftedRequest {
  readonly request: AskedRequest
  /** Keys whose values the operator must add, because they are not known or no request can have them here. */
  readonly missing: readonly string[]
}

/** A caller of a policy. */
interface Subject {
  readonly policy: string
  readonly values: CallerValues
  /** What the policy covers; it is looked up if it is not known. */
  readonly selector?: SelectorJson
  /** Returns the credential itself, if it is known. `values` has its digest. */
  readonly credentialOf?: (key: string) => string | undefined
}

let draft: DraftedRequest | undefined

/** Opens the form with a request that this policy covers and this caller could send. Values of callers are in no address. */
export async function draftExplain({ policy, values, selector, credentialOf }: Subject): Promise<void> {
  const covered = selector ?? (await selectorOf(policy))
  // The operator may have logged out meanwhile, and the next one must not see it.
  if (actor.peek() === undefined) return
  draft = requestFor(covered, values, credentialOf)
  location.hash = addressOf('explain')
}

/** Returns what another view asked for, only once. */
export function takeDraftedRequest(): DraftedRequest | undefined {
  const taken = draft
  draft = undefined
  return taken
}

/** Calls of the rate limit service have descriptors instead of a request that could be explained. */
export function isExplainable(selector: SelectorJson | undefined, values: CallerValues): boolean {
  return selector?.domain === undefined && !Object.keys(values).some((key) => key.startsWith('descriptor:'))
}

async function selectorOf(policy: string): Promise<SelectorJson> {
  try {
    return (await ask<PolicyPage>('GET', policiesPath({ policy }))).policies[0]?.selector ?? {}
  } catch {
    // The policy has left the bundle, or edge is unreachable, which the header says. The rest of the request is as useful as before.
    return {}
  }
}

/** Makes up a request that a policy covers and that has these values. `values` has credentials as digests. */
function requestFor(
  { methods, hosts, pathExact, pathPrefix }: SelectorJson,
  values: CallerValues,
  credentialOf: (key: string) => string | undefined = () => undefined,
): DraftedRequest {
  const path = (pathExact ?? pathPrefix ?? '/').split('/').slice(1)
  const query: string[] = []
  const headers: string[] = []
  const cookies: string[] = []
  const claims = emptyObject()
  const missing: string[] = []
  let body = ''
  for (const [key, known] of Object.entries(values)) {
    const name = key.slice(key.indexOf(':') + 1)
    const whole = wholeText(key, isCredential(key) ? credentialOf(key) : known)
    if (whole === undefined || !POSSIBLE.test(key)) missing.push(key)
    const text = whole ?? ''
    if (key === 'bearer' || key === 'llm:key') headers.push(`Authorization: Bearer ${text}`)
    else if (key.startsWith('cookie:')) cookies.push(`${name}=${text}`)
    else if (key.startsWith('header:')) headers.push(`${name}: ${text}`)
    else if (whole === undefined) continue
    else if (key === 'ip:address') headers.push(`X-Forwarded-For: ${text.replace(/\/64$/, '')}`)
    else if (key.startsWith('jwt:')) setClaim(claims, name.split('.'), text)
    else if (key.startsWith('query:')) query.push(`${encodeURIComponent(name)}=${encodeURIComponent(text)}`)
    else if (key.startsWith('path:')) setSegment(path, Number(name), encodeURIComponent(text))
    else if (key === 'llm:model') body = JSON.stringify({ model: text, messages: [] })
  }
  if (cookies.length > 0) headers.push(`Cookie: ${cookies.join('; ')}`)
  if (Object.keys(claims).length > 0 && !('bearer' in values || 'llm:key' in values))
    headers.push(`Authorization: Bearer ${unsignedToken(claims)}`)
  const uri = `/${path.join('/')}${query.length === 0 ? '' : `?${query.join('&')}`}`
  return {
    request: { method: methods?.[0] ?? 'GET', uri, host: hosts?.[0]?.replace('*', 'www') ?? '', headers: headers.join('\n'), body },
    missing,
  }
}

/** Keys whose values a request can have. Who calls from which country, for example, is found by the address. */
const POSSIBLE = /^(?:bearer$|cookie:|header:|ip:address$|jwt:|query:|path:|llm:(?:model|key)$)/

/** Returns a value as it can be typed; undefined if it is not known, known in part, or cannot be typed. */
function wholeText(key: string, value: string | undefined): string | undefined {
  if (value === undefined || value.endsWith('…')) return undefined
  const text = shownValue(value)
  return typedValue(key, text) === value ? text : undefined
}

/** Claims may have any name, those of members that every object inherits included. */
function emptyObject(): Record<string, unknown> {
  return Object.create(null)
}

/** `jwt:org.id` is the claim `id` of the claim `org`. */
function setClaim(claims: Record<string, unknown>, segments: readonly string[], value: string): void {
  const [first, ...rest] = segments
  if (rest.length === 0) {
    claims[first!] = value
    return
  }
  const inner = claims[first!]
  const object = typeof inner === 'object' && inner !== null ? (inner as Record<string, unknown>) : emptyObject()
  claims[first!] = object
  setClaim(object, rest, value)
}

/** Segments are counted from 1. */
function setSegment(path: string[], number: number, text: string): void {
  while (path.length < number) path.push('')
  path[number - 1] = text
  for (let i = 0; i < number - 1; i++) path[i] ||= 'x'
}

/** Returns a JWT with these claims. The gateway in front verifies signatures, and edge reads the claims alone. */
function unsignedToken(claims: Readonly<Record<string, unknown>>): string {
  return `${base64url({ alg: 'none' })}.${base64url(claims)}.none`
}

function base64url(value: unknown): string {
  const bytes = Array.from(new TextEncoder().encode(JSON.stringify(value)), (byte) => String.fromCharCode(byte)).join('')
  return btoa(bytes).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')
}
