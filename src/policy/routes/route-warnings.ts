import { encodePathText, normalizePath } from '../../text/path.ts'
import { formatPath, type Path, type Problem } from '../../text/problem.ts'
import { isInBody, parseDescriptorKey } from '../descriptor-key.ts'
import { PathPrefixes, type Patterns } from '../patterns.ts'
import { coverageOf, coversHost, type SelectorCoverage } from '../review/coverage.ts'
import { patternSurprises, selectorSurprises } from '../review/selector-surprises.ts'
import { compileMatch, listOf } from '../rule-match.ts'
import type { RouteConfig } from '../schema/backends.ts'
import type { Bundle, Rule } from '../schema/bundle.ts'
import { isCredentialField } from './planned-backend.ts'
import { secretsIn } from './route-problems.ts'

/** Bounds the steps of all comparisons between routes. A route that would take more than is left goes unchecked. */
const MAX_STEPS = 300_000

/** Finds valid backends and routes with surprising effects: those that get no request, retries without another backend, credentials in the bundle. */
export function* routeSurprises({ backends = {}, routes = [], policies }: Bundle): Generator<Problem> {
  const readsBodies = policies.some(({ spec }) => spec.rules.some(readsBody))
  const used = new Set(routes.flatMap(({ backends: group, fallback = [] }) => [...group, ...fallback].map(({ name }) => name)))
  for (const [name, { url, headers = {} }] of Object.entries(backends)) {
    if (!used.has(name)) yield { path: formatPath(['backends', name]), message: 'no route names this backend, so it gets no requests' }
    const twice = repeatedPath(url, name, routes)
    if (twice !== undefined) {
      const message = `every path of its routes begins with the path of this URL, which is put in front of it, so the backend gets ${twice}: remove it here`
      yield { path: formatPath(['backends', name, 'url']), message }
    }
    for (const [field, text] of Object.entries(headers)) {
      const [dollar] = /\$\{[A-Z][A-Z0-9_]*\}/.exec(text) ?? []
      if (dollar !== undefined) {
        const message = `write ${dollar.slice(1)}: the $ of ${dollar} is sent too`
        yield { path: formatPath(['backends', name, 'headers', field]), message }
      }
      if (!isCredentialField(field) || secretsIn(text).length > 0) continue
      const message = 'everybody who can read the bundle can read this credential: put it into a secret, and write {NAME} here'
      yield { path: formatPath(['backends', name, 'headers', field]), message }
    }
  }
  const comparison = new RouteComparison()
  for (const [r, route] of routes.entries()) {
    yield* selectorSurprises(route.selector ?? {}, 'route', ['routes', r, 'selector'])
    for (const [key, given] of Object.entries(route.match ?? {}))
      yield* patternSurprises(key, given, formatPath(['routes', r, 'match', key]))
    yield* retrySurprises(route, ['routes', r])
    if (!readsBodies) yield* unreadSurprises(route, ['routes', r])
    const earlier = comparison.add(route)
    if (earlier !== undefined) {
      const message = `it never matches: ${formatPath(['routes', earlier])} covers all of its requests, and the first route decides; move it up`
      yield { path: formatPath(['routes', r]), message }
    }
  }
}

/** Returns what the backend gets in front of each path if its routes cover only paths that begin with that of its URL. */
function repeatedPath(url: string, name: string, routes: readonly RouteConfig[]): string | undefined {
  const path = new URL(url).pathname.replace(/\/$/, '')
  if (path === '') return undefined
  const base = new PathPrefixes([path])
  const own = routes.filter(({ backends, fallback = [] }) => [...backends, ...fallback].some((choice) => choice.name === name))
  return own.length > 0 && own.every(({ selector }) => base.cover(coverageOf(selector).path)) ? `${path}${path}` : undefined
}

function* retrySurprises({ backends, fallback = [], stick_to, retry }: RouteConfig, path: Path): Generator<Problem> {
  const others = backends.filter(({ weight }) => weight > 0).length + fallback.length - 1
  const isDefault = retry.attempts <= 1 && retry.on.length === 1 && retry.on[0] === 'connect'
  if (!isDefault && retry.attempts > others) {
    const message = `there ${others === 1 ? 'is 1 other backend' : `are ${others} other backends`} to try: attempts above that have no effect`
    yield { path: formatPath([...path, 'retry', 'attempts']), message }
  }
  if (stick_to !== undefined && backends.length === 1)
    yield { path: formatPath([...path, 'stick_to']), message: 'it has no effect: the route has one backend' }
}

/** Methods of requests that usually have no body. */
const WITHOUT_BODY = new Set(['GET', 'HEAD', 'OPTIONS', 'DELETE'])

/** Warns about retries that need the whole body in memory where nothing reads bodies. */
function* unreadSurprises(
  { selector, match = {}, backends, fallback = [], stick_to = [], retry }: RouteConfig,
  path: Path,
): Generator<Problem> {
  if (retry.on.every((outcome) => outcome === 'connect')) return
  if ([...Object.keys(match), ...stick_to].some(isKeyInBody) || [...backends, ...fallback].some(({ model }) => model !== undefined)) return
  if (selector?.methods?.every((method) => WITHOUT_BODY.has(method.toUpperCase())) === true) return
  const message =
    'only connect is retried for requests with a body, because nothing reads the bodies of this route, so they cannot be sent again: match on "llm:model": "*" if they are requests to models'
  yield { path: formatPath([...path, 'retry', 'on']), message }
}

/** Whether a rule has the proxy read the bodies of requests. */
function readsBody({ algorithm, limit_keys: keys, match }: Rule): boolean {
  if (algorithm === 'token_bucket_llm' || algorithm === 'cost_budget') return true
  return [...keys, ...(typeof match === 'object' ? Object.keys(match) : [])].some(isKeyInBody)
}

function isKeyInBody(text: string): boolean {
  return isInBody(parseDescriptorKey(text)!)
}

interface ComparedRoute {
  readonly route: RouteConfig
  readonly coverage: SelectorCoverage
  readonly patterns: ReadonlyMap<string, Patterns>
  readonly steps: number
}

/** Finds routes that an earlier one leaves nothing to. */
class RouteComparison {
  readonly #earlier: ComparedRoute[] = []
  #steps = MAX_STEPS

  /** Returns the index of the first earlier route that covers everything that this one covers. */
  add(route: RouteConfig): number | undefined {
    const own = comparedRoute(route)
    const found = this.#earlier.findIndex((other) => {
      this.#steps -= own.steps
      return this.#steps > 0 && coversRoute(other, own)
    })
    this.#earlier.push(own)
    return found < 0 ? undefined : found
  }
}

function comparedRoute(route: RouteConfig): ComparedRoute {
  const { selector = {}, match = {} } = route
  // The same key may be spelled in several ways.
  const patterns = new Map(compileMatch(match).map(({ key, patterns: own }) => [key.text, own]))
  const values = Object.values(match).reduce((sum, given) => sum + listOf(given).length, 0)
  const steps = 1 + (selector.hosts?.length ?? 0) + (selector.methods?.length ?? 0) + (selector.exceptPaths?.length ?? 0) + values
  return { route, coverage: coverageOf(selector), patterns, steps }
}

/** A match is compared first: it takes no more than a lookup where the keys differ. */
function coversRoute(other: ComparedRoute, own: ComparedRoute): boolean {
  return coversMatch(other, own) && coversSelector(other, own)
}

function coversSelector({ route, coverage: other }: ComparedRoute, { route: ownRoute, coverage: own }: ComparedRoute): boolean {
  if (!other.covers(own.path, own.isExact)) return false
  if (other.methods !== undefined && ![...(own.methods ?? [''])].every((method) => other.methods!.has(method))) return false
  if (![...(own.hosts ?? [undefined])].every((host) => coversHost(other, host))) return false
  const excepted = route.selector?.exceptPaths
  if (excepted === undefined) return true
  // What the other route excepts must be excepted here too, or lie elsewhere.
  const exceptions = new PathPrefixes(ownRoute.selector?.exceptPaths ?? [])
  const covered = new PathPrefixes([own.path])
  return excepted
    .map((path) => normalizePath(encodePathText(path)))
    .every((path) => exceptions.cover(path) || (own.isExact ? path !== own.path : !covered.cover(path)))
}

/** Whether each key that the other route reads has, in this one, only values that fit there too. */
function coversMatch({ patterns }: ComparedRoute, own: ComparedRoute): boolean {
  for (const [key, other] of patterns) {
    const covered = own.patterns.get(key)
    if (covered === undefined || !other.coverAll(covered)) return false
  }
  return true
}
