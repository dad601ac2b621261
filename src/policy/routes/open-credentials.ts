import { foldedName } from '../../text/formats.ts'
import { quoted } from '../../text/printable.ts'
import { formatPath, type Problem } from '../../text/problem.ts'
import { parseDescriptorKey } from '../descriptor-key.ts'
import { coverageOf } from '../review/coverage.ts'
import type { BackendConfig, RouteConfig } from '../schema/backends.ts'
import type { Bundle } from '../schema/bundle.ts'
import { hasCredential } from './planned-backend.ts'

/**
 * Warns, for `reverse_proxy`, of backends with a credential of ours that requests without a verified caller can reach. Limits do not count: below them, anybody
 * still spends it. A route that matches on a `caller:` key has verified callers only.
 */
export function openCredentials({ backends = {}, routes = [], callers }: Bundle): Problem[] {
  const guarded = Object.keys(backends).filter((name) => hasCredential(backends[name]!.headers ?? {}) && backends[name]!.open !== true)
  if (guarded.length === 0) return []
  const open = new Map<string, string>()
  if (callers?.mode === 'enforce') {
    for (const path of callers.except_paths ?? []) {
      for (const name of reachedBelow(path, routes)) if (!open.has(name)) open.set(name, exceptedMessage(name, path))
    }
  } else {
    const why = callers === undefined ? 'add callers with mode: enforce' : 'set mode: enforce in callers'
    for (const route of routes) for (const name of isForKnown(route) ? [] : backendsOf(route)) open.set(name, openMessage(name, why))
  }
  return guarded.flatMap((name): Problem[] => {
    const message = open.get(name)
    return message === undefined ? [] : [{ path: formatPath(['backends', name]), message, isProblem: true }]
  })
}

const TOKENS_IN_VAIN =
  'it knows edge by a field of headers, and also gets the tokens of callers, which it could use here until they expire: write forward_credentials: false, or true if it needs them'

/**
 * Warns, for `reverse_proxy`, of backends that know us by a credential of their own and also get those of callers, unless these are meant for them. One that
 * has none may be a service of the same house, which reads the token; where the credential is `authorization`, it takes the place of the token.
 */
export function forwardedTokens({ backends = {}, routes = [], callers }: Bundle): Problem[] {
  const { jwt: issuers = [] } = callers ?? {}
  return [...new Set(routes.flatMap(backendsOf))].flatMap((name): Problem[] => {
    const { url, headers = {}, forward_credentials: forwards }: BackendConfig = backends[name]!
    const hasOwn = Object.keys(headers).some((field) => foldedName(field.toLowerCase()) === 'authorization')
    if (forwards !== undefined || hasOwn || !hasCredential(headers)) return []
    const { host } = new URL(url)
    const isAudience = issuers.every(({ audiences }) => audiences.some((audience) => hostOf(audience) === host))
    return isAudience ? [] : [{ path: formatPath(['backends', name]), message: TOKENS_IN_VAIN }]
  })
}

/** An audience is usually the URL of a service, or its host. */
function hostOf(audience: string): string {
  const { host = '' } = URL.canParse(audience) ? new URL(audience) : {}
  return host || audience.toLowerCase()
}

const ACKNOWLEDGE = 'or write open: true in the backend if only those who may can reach the port'

function openMessage(name: string, why: string): string {
  return `in reverse_proxy, anybody who reaches this port spends the credential of backend ${quoted(name)}: ${why}, ${ACKNOWLEDGE}`
}

function exceptedMessage(name: string, path: string): string {
  return `in reverse_proxy, anybody who reaches this port spends the credential of backend ${quoted(name)} at ${path}, which needs no caller (callers.except_paths): give that path a route of its own, ${ACKNOWLEDGE}`
}

/** Returns the backends of the routes that may get a request at or below a path: up to the first that gets all of them. */
function reachedBelow(path: string, routes: readonly RouteConfig[]): string[] {
  const names: string[] = []
  const asked = coverageOf({ pathPrefix: path })
  for (const route of routes) {
    const { selector, match = {} } = route
    const own = coverageOf(selector)
    const coversAll = own.covers(asked.path, false)
    if (!coversAll && !asked.covers(own.path, own.isExact)) continue
    if (!isForKnown(route)) names.push(...backendsOf(route))
    const isWhole = selector?.exceptPaths === undefined && own.methods === undefined && own.hosts === undefined
    if (coversAll && isWhole && Object.keys(match).length === 0) break
  }
  return names
}

/** Whether the route covers only requests of verified callers. */
function isForKnown({ match = {} }: RouteConfig): boolean {
  return Object.keys(match).some((text) => parseDescriptorKey(text)!.kind === 'caller')
}

function backendsOf({ backends, fallback = [] }: RouteConfig): string[] {
  return [...backends, ...fallback].map(({ name }) => name)
}
