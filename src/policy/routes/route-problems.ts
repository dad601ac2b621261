import { parseHeaderTemplate } from '../../secrets/header-template.ts'
import { isLoopbackName, isMetadataAddress, METADATA_ADDRESS, parseAddress } from '../../text/address.ts'
import { field, formatPath, isObject, listIn, type Path, type Problem, show } from '../../text/problem.ts'
import { KnownWords } from '../../text/suggest.ts'
import { parseDescriptorKey } from '../descriptor-key.ts'
import { normalizeHost } from '../patterns.ts'
import type { CallerKeys } from '../review/caller-problems.ts'

/** Each value takes memory in each worker. */
const MAX_PATTERNS_IN_ALL = 20_000
const MAX_HOST_METHODS_IN_ALL = 20_000
/** More names are not compared with a misspelled one. */
const MAX_SUGGESTED = 64

/**
 * Finds errors in `backends` and `routes` that no single field shows: names that do not exist, backends that are listed twice, secrets that would be sent
 * in the clear. Checks whatever is readable, even if the rest is invalid.
 */
export function* routeContradictions(
  { backends, routes }: { readonly backends?: unknown; readonly routes?: unknown },
  callerKeys: CallerKeys,
): Generator<Problem> {
  const names = isObject(backends) ? Object.keys(backends) : []
  for (const name of names) yield* backendProblems(field(backends, name), ['backends', name])
  const known: KnownBackends = { names: new Set(names), words: new KnownWords(names.slice(0, MAX_SUGGESTED)) }
  let [patterns, pairs] = [0, 0]
  for (const [r, route] of (Array.isArray(routes) ? routes : []).entries()) {
    yield* choiceProblems(route, known, ['routes', r])
    yield* keyProblems(route, ['routes', r])
    yield* callerKeys.problemsOf(route, ['routes', r], 'stick_to')
    const selector = field(route, 'selector')
    pairs += Math.max(listIn(selector, 'hosts').length, 1) * Math.max(listIn(selector, 'methods').length, 1)
    patterns += listIn(selector, 'exceptPaths').length + patternsIn(field(route, 'match'))
  }
  if (patterns > MAX_PATTERNS_IN_ALL)
    yield { path: 'routes', message: `expected at most ${MAX_PATTERNS_IN_ALL} patterns and excepted paths in all routes, got ${patterns}` }
  if (pairs > MAX_HOST_METHODS_IN_ALL)
    yield {
      path: 'routes',
      message: `expected at most ${MAX_HOST_METHODS_IN_ALL} pairs of a host and a method in all routes, got ${pairs}`,
    }
}

interface KnownBackends {
  readonly names: ReadonlySet<string>
  readonly words: KnownWords
}

/** What is wrong with the place of a backend, whatever the settings allow. */
function* backendProblems(backend: unknown, path: Path): Generator<Problem> {
  const text = field(backend, 'url')
  const url = typeof text === 'string' && URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined) return
  const host = normalizeHost(url.hostname)
  const address = parseAddress(host)
  if (address !== undefined && isMetadataAddress(address)) {
    const message = `expected a host other than ${METADATA_ADDRESS}, where clouds serve credentials of the machine`
    yield { path: formatPath([...path, 'url']), message }
  }
  const headers = field(backend, 'headers')
  if (url.protocol !== 'http:' || isLoopbackName(host) || !isObject(headers)) return
  for (const [name, value] of Object.entries(headers)) {
    if (secretsIn(value).length === 0) continue
    const message =
      'expected a url with https:// for a field with a secret: over http:// it would be sent in the clear (only loopback may have it)'
    yield { path: formatPath([...path, 'headers', name]), message }
  }
}

/** The names of the secrets in the text of a header field, which may be invalid. */
export function secretsIn(text: unknown): readonly string[] {
  return typeof text === 'string' ? (parseHeaderTemplate(text)?.names ?? []) : []
}

/** Finds names of no backend, and backends that are listed twice, in a group and the fallbacks behind it. */
function* choiceProblems(route: unknown, known: KnownBackends, path: Path): Generator<Problem> {
  const seen = new Map<string, string>()
  for (const list of ['backends', 'fallback']) {
    for (const [c, choice] of listIn(route, list).entries()) {
      const name = field(choice, 'name')
      if (typeof name !== 'string') continue
      const at = formatPath([...path, list, c])
      if (!known.names.has(name)) yield { path: `${at}.name`, message: unknownName(name, known) }
      const key = JSON.stringify([name, field(choice, 'model') ?? null])
      const first = seen.get(key)
      if (first === undefined) seen.set(key, at)
      else yield { path: at, message: `${show(name)} is already in ${first}, and nothing is tried twice: remove it, or give one a model` }
    }
  }
}

function unknownName(name: string, { names, words }: KnownBackends): string {
  const suggestion = words.closest(name)
  const hint = suggestion === undefined ? '' : ` — did you mean ${show(suggestion)}?`
  return `expected the name of one of the bundle's backends${names.size === 0 ? ' (it has none)' : ''}, got ${show(name)}${hint}`
}

/** Finds keys of which requests to the proxy have no values, and keys that are listed twice. */
function* keyProblems(route: unknown, path: Path): Generator<Problem> {
  const match = field(route, 'match')
  // A key without a pattern is a problem anyway, and what is in it may be a secret.
  const matched = isObject(match) ? Object.keys(match).filter((key) => match[key] !== null) : []
  for (const key of matched) yield* keyProblem(key, [...path, 'match', key])
  const seen = new Set<string>()
  for (const [k, text] of listIn(route, 'stick_to').entries()) {
    const at = [...path, 'stick_to', k]
    yield* keyProblem(text, at)
    const key = typeof text === 'string' ? parseDescriptorKey(text)?.text : undefined
    if (key === undefined) continue
    if (seen.has(key)) yield { path: formatPath(at), message: `expected each key once, got ${show(text)} again` }
    seen.add(key)
  }
}

function* keyProblem(text: unknown, path: Path): Generator<Problem> {
  const key = typeof text === 'string' ? parseDescriptorKey(text) : undefined
  if (key?.kind !== 'descriptor' && key?.kind !== 'context') return
  const whose = key.kind === 'descriptor' ? 'calls of the rate limit service' : 'gateways that ask'
  yield { path: formatPath(path), message: `expected a key that requests to reverse_proxy have, got ${show(text)}: only ${whose} have it` }
}

function patternsIn(match: unknown): number {
  if (!isObject(match)) return 0
  return Object.values(match).reduce<number>((sum, given) => sum + (Array.isArray(given) ? given.length : 1), 0)
}
