import type { PlannedBackend } from '../../policy/routes/planned-backend.ts'
import type { Choice, PlannedRoute, Routing } from '../../policy/routes/routing.ts'
import type { BackendState } from '../../proxy/backends/backend-health.ts'
import type { Clock } from '../../time/clock.ts'
import type {
  BackendFailureReason,
  BackendInShort,
  BackendJson,
  BackendsJson,
  CoolingModel,
  DefaultBackend,
  RouteJson,
} from '../api/backend-types.ts'
import type { ProblemJson } from '../api/instance-types.ts'

/** Codes of the problems that are read from the state of backends, not from the log. */
export const BACKEND_PROBLEMS = ['backend_cooling', 'backends_cooling'] as const

/** More than anybody reads. With all of a bundle's 1,000 routes, a response could have megabytes. */
const MAX_ROUTES = 100
/** Of models and routes in one message. */
const MAX_NAMED = 5

export interface BackendReportParts {
  /** Undefined if no routes are in use: the bundle has none, or nothing is forwarded. */
  readonly routing: () => Routing | undefined
  readonly states: (backends: readonly PlannedBackend[]) => readonly BackendState[]
  readonly tryNow: (backend: PlannedBackend) => boolean
  /** How many connections each of so many backends may have. */
  readonly maxConnections: (backends: number) => number
  readonly clock: Clock
  /** EDGE_BACKEND_URL and its connections; undefined if it is not set, or nothing is forwarded. */
  readonly default: DefaultParts | undefined
}

interface DefaultParts {
  readonly url: URL
  readonly places: { readonly taken: number; readonly waitingInAll: number; readonly max: number }
}

/** Describes backends for operators. All workers share what is known of them, so each of them gives the same answer. */
export class BackendReport {
  readonly #parts: BackendReportParts
  readonly #routeNumbers = new WeakMap<Routing, ReadonlyMap<string, readonly number[]>>()

  constructor(parts: BackendReportParts) {
    this.#parts = parts
  }

  get names(): readonly string[] {
    return [...(this.#parts.routing()?.backends.keys() ?? [])]
  }

  all(): BackendsJson {
    const routes = this.#parts.routing()?.routes ?? []
    return {
      backends: this.#backends(),
      default: this.#parts.default === undefined ? null : defaultJson(this.#parts.default),
      routes: routes.slice(0, MAX_ROUTES).map(routeJson),
      routes_in_all: routes.length,
    }
  }

  /** Returns undefined if the active bundle has no backend of this name. */
  one(name: string): BackendJson | undefined {
    const planned = this.#parts.routing()?.backends.get(name)
    return planned && this.#describe([planned])[0]
  }

  inShort(): BackendInShort[] {
    return this.#backends().map(({ name, state, reason, since, cooling_until }) => ({ name, state, reason, since, cooling_until }))
  }

  /** Has the backend tried at once. Returns false if it does not cool. */
  tryNow(name: string): boolean {
    const planned = this.#parts.routing()?.backends.get(name)
    return planned !== undefined && this.#parts.tryNow(planned)
  }

  /** Backends that fail, credentials that are refused, and routes that have nowhere to go. A model that has reached its rate limit is no problem. */
  problems(): ProblemJson[] {
    const backends = this.#backends()
    const failing = backends.filter(({ state }) => state !== 'healthy')
    const byName = new Map(failing.map((backend) => [backend.name, backend]))
    const routes = (this.#parts.routing()?.routes ?? []).filter((route) => hasNowhereToGo(route, byName))
    return [
      ...failing.map((backend) => problem('backend_cooling', failingMessage(backend), backend.since!)),
      ...backends.flatMap(refusedProblems),
      ...(routes.length === 0 ? [] : [problem('backends_cooling', routesMessage(routes), latestSince(routes, byName))]),
    ]
  }

  #backends(): BackendJson[] {
    const routing = this.#parts.routing()
    return routing === undefined ? [] : this.#describe([...routing.backends.values()])
  }

  #describe(planned: readonly PlannedBackend[]): BackendJson[] {
    const routing = this.#parts.routing()!
    const numbers = this.#numbersOf(routing)
    const max = this.#parts.maxConnections(routing.backends.size)
    const states = this.#parts.states(planned)
    return planned.map(({ name, url, hasCredential }, i) => {
      const { lastFailure, ...state } = states[i]!
      return {
        name,
        url: shownUrl(url),
        has_credential: hasCredential,
        state: stateName(state),
        reason: state.reason === undefined ? null : reasonName(state.reason),
        since: this.#time(state.sinceMs),
        cooling_until: this.#time(state.coolingUntilMs),
        failures_in_a_row: state.failuresInARow,
        cooling_models: state.models.map((model) => this.#coolingModel(model)),
        connections: state.connections,
        max_connections: max,
        queue: state.queue,
        routes: numbers.get(name) ?? [],
        last_failure: lastFailure === undefined ? null : { reason: reasonName(lastFailure.reason), at: this.#time(lastFailure.atMs)! },
      }
    })
  }

  #coolingModel({ model, state, reason, sinceMs, coolingUntilMs }: BackendState['models'][number]): CoolingModel {
    return {
      model: model === '' ? null : model,
      state: state === 'cooling' ? 'cooling' : 'probing',
      reason: reasonName(reason!),
      since: this.#time(sinceMs)!,
      until: this.#time(coolingUntilMs),
    }
  }

  /** In whole seconds a time is the same whenever it is asked for; the two clocks tick in fractions of a millisecond of their own. */
  #time(ms: number): string
  #time(ms: number | undefined): string | null
  #time(ms: number | undefined): string | null {
    if (ms === undefined) return null
    const { clock } = this.#parts
    return new Date(Math.round((ms + clock.wallMs() - clock.nowMs()) / 1000) * 1000).toISOString()
  }

  #numbersOf(routing: Routing): ReadonlyMap<string, readonly number[]> {
    const known = this.#routeNumbers.get(routing)
    if (known !== undefined) return known
    const numbers = new Map<string, number[]>([...routing.backends.keys()].map((name) => [name, []]))
    for (const { number, group, fallback } of routing.routes)
      for (const name of new Set([...group, ...fallback].map(({ backend }) => backend.name))) numbers.get(name)!.push(number)
    this.#routeNumbers.set(routing, numbers)
    return numbers
  }
}

function stateName({ state }: Pick<BackendState, 'state'>): BackendJson['state'] {
  return state === 'recovering' ? 'probing' : state
}

function reasonName(reason: NonNullable<BackendState['reason']>): BackendFailureReason {
  return String(reason) as BackendFailureReason
}

function shownUrl({ origin, pathname }: URL): string {
  return pathname === '/' ? origin : `${origin}${pathname}`
}

function defaultJson({ url, places }: DefaultParts): DefaultBackend {
  return { url: shownUrl(url), connections: places.taken, max_connections: places.max, queue: places.waitingInAll }
}

function routeJson({ number, selector, matchKeys, group, fallback, stickTo, retry }: PlannedRoute): RouteJson {
  return {
    number,
    selector,
    match: matchKeys,
    backends: group.map(({ backend: { name }, weight, model = null }) => ({ name, weight, model })),
    fallback: fallback.map(({ backend: { name }, model = null }) => ({ name, weight: null, model })),
    stick_to: stickTo.map(({ text }) => text),
    attempts: retry.attempts,
  }
}

/** A backend without an alternative gets its requests even if it cools for another route. */
function hasNowhereToGo(route: PlannedRoute, failing: ReadonlyMap<string, unknown>): boolean {
  const usable = usableIn(route)
  return usable.length > 1 && usable.every(({ backend }) => failing.has(backend.name))
}

function usableIn({ group, fallback }: PlannedRoute): readonly Choice[] {
  return [...group.filter(({ weight }) => weight > 0), ...fallback]
}

function latestSince(routes: readonly PlannedRoute[], failing: ReadonlyMap<string, BackendInShort>): string {
  const sinces = routes.flatMap(usableIn).map(({ backend }) => failing.get(backend.name)!.since!)
  return sinces.reduce((latest, since) => (since > latest ? since : latest))
}

function problem(code: (typeof BACKEND_PROBLEMS)[number], message: string, since: string): ProblemJson {
  return { code, message, since, details: [], details_in_all: 0 }
}

const FAILURES: Readonly<Record<BackendFailureReason, string>> = {
  connect: 'no connection',
  timeout: 'no response in time',
  '5xx': 'a status of 500 or above, or a broken connection',
  429: 'status 429',
  401: 'status 401',
  402: 'status 402',
  403: 'status 403',
}

function failingMessage({ name, reason, failures_in_a_row: failures, cooling_until: until }: BackendJson): string {
  const next =
    until === null
      ? 'one request at a time tries it'
      : `it gets no requests until ${until.slice(11, 19)} UTC if a route has another backend`
  return `backend ${name} fails, ${failures} times in a row: ${FAILURES[reason!]}; ${next}`
}

/** Of 401, 402 and 403: the provider refuses the credential that the backend is called with. */
function refusedProblems({ name, cooling_models: models }: BackendJson): ProblemJson[] {
  const refused = models.filter(({ reason }) => reason === '401' || reason === '402' || reason === '403')
  if (refused.length === 0) return []
  const statuses = [...new Set(refused.map(({ reason }) => reason))].sort().join(', ')
  const about = listed(refused.map(({ model }) => model ?? 'requests whose model is not known'))
  const since = refused.reduce((first, model) => (model.since < first ? model.since : first), refused[0]!.since)
  return [problem('backend_cooling', `backend ${name} refuses its credential (status ${statuses}) for ${about}`, since)]
}

function routesMessage(routes: readonly PlannedRoute[]): string {
  const which = listed(routes.map(({ number }) => `routes[${number}]`))
  return `every backend of ${which} cools: one request at a time is tried, the others get 503 backends_cooling`
}

function listed(names: readonly string[]): string {
  const more = names.length - MAX_NAMED
  return names.slice(0, MAX_NAMED).join(', ') + (more > 0 ? ` and ${more} more` : '')
}
