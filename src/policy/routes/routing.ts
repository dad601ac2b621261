import { type DescriptorKey, isInBody, parseDescriptorKey } from '../descriptor-key.ts'
import { Matches, RouteIndex } from '../index/routes.ts'
import { PathPrefixes } from '../patterns.ts'
import { compileMatch } from '../rule-match.ts'
import type { RetryConfig, RouteConfig } from '../schema/backends.ts'
import type { Bundle } from '../schema/bundle.ts'
import { type FirstRoute, MatchIndex, type RouteValues } from './match-index.ts'
import { type PlannedBackend, planBackends } from './planned-backend.ts'

/** A backend that a route may choose. */
export interface Choice {
  readonly backend: PlannedBackend
  /** 0 in `fallback`, where the order decides. */
  readonly weight: number
  /** Replaces the request's model. */
  readonly model: string | undefined
}

export interface PlannedRoute {
  /** Its index in the bundle, as in `routes[0]`. */
  readonly number: number
  /** Which requests it covers, for people to read: its selector as the bundle has it, and the keys that it matches. */
  readonly selector: NonNullable<RouteConfig['selector']>
  readonly matchKeys: readonly string[]
  /** Those that share the requests. */
  readonly group: readonly Choice[]
  /** Those that are tried next, in this order. */
  readonly fallback: readonly Choice[]
  readonly stickTo: readonly RouteKey[]
  readonly retry: RetryPolicy
  /** Every model that a request may be sent as, beside its own. */
  readonly models: readonly string[]
  /** Whether a request may be sent with its own model. */
  readonly keepsModel: boolean
  /** Whether the body must be read, because a model is replaced in it or a value of `stickTo` is in it. */
  readonly needsBody: boolean
}

/** A key of the plan. */
interface RouteKey {
  readonly text: string
  readonly keyIndex: number
}

export interface RetryPolicy {
  /** How many more backends are tried at most. */
  readonly attempts: number
  readonly connect: boolean
  readonly timeout: boolean
  /** Whether a response with this status is tried again elsewhere. */
  handles(status: number): boolean
  /** Whether a request that was sent may be sent again: after some status, or a timeout. */
  readonly repeatsSent: boolean
}

/** What is known of a request when its route is chosen. */
export interface RoutedRequest extends RouteValues {
  /** Normalised. */
  readonly path: string
  /** Normalised; empty if the request names none. */
  readonly host: string
  /** In upper case. */
  readonly method: string
}

/** The routes of a bundle. The time to find the one that covers a request does not grow with their number. */
export class Routing {
  readonly backends: ReadonlyMap<string, PlannedBackend>
  readonly routes: readonly PlannedRoute[]
  /** An entry for each selector. */
  readonly #selectors = new RouteIndex<MatchIndex>()
  /** Reused: a search is never interrupted. */
  readonly #matches = new Matches<MatchIndex>()

  /** `keyIndexOf` adds the key to those of the plan. */
  constructor({ backends, routes = [] }: Pick<Bundle, 'backends' | 'routes'>, keyIndexOf: (key: DescriptorKey) => number) {
    this.backends = planBackends(backends)
    this.routes = routes.map((route, number) => planRoute(route, number, this.backends, keyIndexOf))
    const known = new Map<string, MatchIndex>()
    for (const [order, { selector = {}, match = {} }] of routes.entries()) {
      const text = JSON.stringify(Object.entries(selector).sort(([one], [other]) => (one < other ? -1 : 1)))
      let index = known.get(text)
      if (index === undefined) {
        index = new MatchIndex(order, selector.exceptPaths && new PathPrefixes(selector.exceptPaths))
        known.set(text, index)
        this.#selectors.add(index, selector)
      }
      const conditions = compileMatch(match).map(({ key, patterns }) => ({ keyIndex: keyIndexOf(key), isInBody: isInBody(key), patterns }))
      index.add(order, conditions)
    }
  }

  /** The route that covers the request: the first in bundle order. `repeated_descriptor`: a value that decides can be read in more than one way. */
  routeOf(request: RoutedRequest): PlannedRoute | 'repeated_descriptor' | undefined {
    const { order, verdict } = this.#find(request)
    return verdict === 'sure' ? this.routes[order] : 'repeated_descriptor'
  }

  /** Whether the body must be read before `routeOf`, or for the route itself. Values in a body that was not read must be UNDECIDED. */
  needsBody(request: RoutedRequest): boolean {
    const { order, verdict } = this.#find(request)
    return verdict === 'open' || (verdict === 'sure' && this.routes[order]?.needsBody === true)
  }

  #find(request: RoutedRequest): FirstRoute {
    const matches = this.#matches
    const first: FirstRoute = { order: Number.POSITIVE_INFINITY, verdict: 'sure' }
    this.#selectors.match(request.path, request.host, request.method, matches)
    for (let i = 0; i < matches.count; i++) {
      const index = matches.policies[i]!
      // They are in the order of their first routes.
      if (index.index > first.order) break
      index.find(request, first)
    }
    return first
  }
}

function planRoute(
  { selector = {}, match = {}, backends: group, fallback = [], stick_to: stickTo = [], retry }: RouteConfig,
  number: number,
  backends: ReadonlyMap<string, PlannedBackend>,
  keyIndexOf: (key: DescriptorKey) => number,
): PlannedRoute {
  const keys = stickTo.map((text) => parseDescriptorKey(text)!)
  const reachable = [...group.filter(({ weight }) => weight > 0), ...fallback].map(({ model }) => model)
  const models = [...new Set(reachable)].filter((model) => model !== undefined)
  return Object.freeze({
    number,
    selector,
    matchKeys: Object.keys(match),
    group: group.map(({ name, weight, model }) => ({ backend: backends.get(name)!, weight, model })),
    fallback: fallback.map(({ name, model }) => ({ backend: backends.get(name)!, weight: 0, model })),
    stickTo: keys.map((key) => ({ text: key.text, keyIndex: keyIndexOf(key) })),
    retry: retryPolicy(retry),
    models,
    keepsModel: reachable.includes(undefined),
    needsBody: models.length > 0 || keys.some(isInBody),
  })
}

function retryPolicy({ on, attempts }: RetryConfig): RetryPolicy {
  const failures = new Set(on.map(String))
  return {
    attempts,
    connect: failures.has('connect'),
    timeout: failures.has('timeout'),
    handles: (status) => failures.has(String(status)) || (status >= 500 && status <= 599 && failures.has('5xx')),
    repeatsSent: attempts > 0 && (failures.size > 1 || !failures.has('connect')),
  }
}
