import { encodePathText } from '../text/path.ts'
import { type DescriptorKey, parseDescriptorKey } from './descriptor-key.ts'
import type { Policy } from './schema/bundle.ts'
import type { Callers } from './schema/callers.ts'
import type { Selector } from './schema/selector.ts'

/** A request that somebody can send to see a policy at work. */
export interface ExampleRequest {
  readonly method: string
  /** Path and query, of visible ASCII characters. */
  readonly target: string
  /** Undefined if any host will do. */
  readonly host: string | undefined
  readonly fields: readonly (readonly [name: string, value: string])[]
  /** What stands for a credential in the fields, and what to put there; undefined if the request needs none. */
  readonly credential?: { readonly placeholder: string; readonly kinds: string } | undefined
}

/**
 * Returns a request that a policy covers, the first enforcing one if there is one, from a caller that its first limit can tell apart as far as header
 * fields and the query can do that. Returns undefined if no policy covers requests.
 */
export function exampleRequest(policies: readonly Policy[], callers?: Callers): ExampleRequest | undefined {
  const enforcing = policies.filter(({ spec }) => spec.mode !== 'shadow')
  for (const policy of [...enforcing, ...policies]) {
    const path = policy.spec.rules.length === 0 ? undefined : examplePath(policy.spec.selector ?? {})
    if (path === undefined) continue
    const request = requestTo(path, policy)
    return callers?.mode === 'enforce' && !isBelow(path, callers.except_paths ?? []) ? withCredential(request, callers) : request
  }
  return undefined
}

function requestTo(path: string, { spec: { selector = {}, rules } }: Policy): ExampleRequest {
  const { methods = ['GET'], hosts } = selector
  const [rule] = rules.filter(({ algorithm }) => algorithm !== 'block')
  const keys = (rule?.limit_keys ?? []).flatMap((text) => parseDescriptorKey(text) ?? [])
  const query = keys.flatMap((key) => (key.kind === 'query' ? `${encodeURIComponent(key.text.slice('query:'.length))}=${CALLER}` : []))
  const upper = methods.map((method) => method.toUpperCase())
  return {
    method: upper.includes('GET') ? 'GET' : upper[0]!,
    target: `${path}${query.length === 0 ? '' : `?${query.join('&')}`}`,
    host: hosts?.[0]?.replace(/^\*\./, 'www.'),
    fields: fieldsOf(keys),
  }
}

const CALLER = 'alice'

/** Returns a path that the selector covers; undefined if it is for the rate limit service, or if its exceptions cover all that is tried. */
function examplePath({ domain, pathExact, pathPrefix = '/', exceptPaths = [] }: Selector): string | undefined {
  if (domain !== undefined) return undefined
  const prefix = pathPrefix.replace(/\/$/, '')
  const paths = pathExact === undefined ? [`${prefix}/hello`, prefix, `${prefix}/example`] : [pathExact]
  const path = paths.find((each) => each !== '' && !isBelow(each, exceptPaths))
  return path === undefined ? undefined : encodePathText(path).replaceAll(' ', '%20')
}

function isBelow(path: string, paths: readonly string[]): boolean {
  return paths.some((except) => `${path}/`.startsWith(`${except.replace(/\/$/, '')}/`))
}

/** Where callers are enforced, a request without a credential gets 401. Nobody but its caller has one. */
function withCredential(request: ExampleRequest, { jwt = [], keys }: Callers): ExampleRequest {
  const isBearer = jwt.length > 0 || keys === undefined || keys.from.includes('bearer')
  const placeholder = jwt.length > 0 ? 'TOKEN' : 'KEY'
  const tokens = jwt.length === 0 ? [] : [`a token of ${jwt.map(({ name }) => name).join(' or ')}`]
  const issued = keys === undefined || (jwt.length > 0 && !keys.from.includes('bearer')) ? [] : ['an issued key (edge keys create)']
  const name = capitalised(isBearer ? 'authorization' : keys.from[0]!.replace(/^header:/, '').toLowerCase())
  const fields = [...request.fields.filter(([other]) => other !== name), [name, `${isBearer ? 'Bearer ' : ''}${placeholder}`] as const]
  return { ...request, fields, credential: { placeholder, kinds: [...tokens, ...issued].join(', or ') } }
}

/** Fields that say where a request goes or where it ends: a client sets them itself. */
const CLIENT_FIELDS = new Set(['host', 'content-length', 'transfer-encoding', 'connection', 'expect', 'upgrade', 'te'])

/** A field that a rule is keyed by may not be repeated, so each is named once. */
function fieldsOf(keys: readonly DescriptorKey[]): [string, string][] {
  const fields = new Map<string, string>()
  for (const key of keys) {
    if (key.kind === 'header' && !CLIENT_FIELDS.has(key.name)) fields.set(capitalised(key.name), CALLER)
    else if (key.kind === 'cookie') fields.set('Cookie', [fields.get('Cookie') ?? [], `${key.name}=${CALLER}`].flat().join('; '))
  }
  if (keys.some(({ kind }) => kind === 'bearer' || kind === 'key')) fields.set('Authorization', `Bearer ${CALLER}`)
  return [...fields]
}

/** `x-api-key` as people write it. */
function capitalised(name: string): string {
  return name.replace(/(?:^|-)[a-z]/g, (start) => start.toUpperCase())
}
