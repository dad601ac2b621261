/** The JSON of the admin API about the backends of `reverse_proxy` and the routes to them. See `types.ts`. */

import type { SelectorJson, Time } from './types.ts'

/** Where requests go, and in which state that is. Everything is empty in `decision_service`, which forwards nothing. */
export interface BackendsJson {
  /** Those of the active bundle, in its order. */
  readonly backends: readonly BackendJson[]
  /** `EDGE_BACKEND_URL`, which gets the requests that no route covers; null if it is not set. */
  readonly default: DefaultBackend | null
  /** The first 100 of `routes_in_all`, in the order of the bundle. */
  readonly routes: readonly RouteJson[]
  readonly routes_in_all: number
}

/**
 * - `healthy`: takes requests.
 * - `cooling`: gets no requests before its deadline, as long as a route has another backend.
 * - `probing`: past its deadline, but nothing has succeeded since. One request at a time tries it.
 */
export type BackendStateName = 'healthy' | 'cooling' | 'probing'

/** How calls to a backend failed. `5xx` includes connections that broke before the response. */
export type BackendFailureReason = 'connect' | 'timeout' | '5xx' | '429' | '401' | '402' | '403'

export interface BackendJson extends BackendInShort {
  /** Without a secret: bundles with credentials in a URL are refused. */
  readonly url: string
  /** Whether its requests carry a credential of its own. */
  readonly has_credential: boolean
  /** Calls in a row without a proper response; three of them let it cool. */
  readonly failures_in_a_row: number
  readonly cooling_models: readonly CoolingModel[]
  /** Connections of all workers, and requests that wait for one. */
  readonly connections: number
  readonly max_connections: number
  readonly queue: number
  /** Numbers of the routes that name it, as in `routes[0]`. */
  readonly routes: readonly number[]
  /** The latest failure, even if the backend has recovered since; null if there was none. */
  readonly last_failure: BackendFailureJson | null
}

/** What the status of the instance says about a backend. */
export interface BackendInShort {
  readonly name: string
  readonly state: BackendStateName
  /** Why it began to cool, and when; null if it is healthy. */
  readonly reason: BackendFailureReason | null
  readonly since: Time | null
  /** Null if it does not cool. */
  readonly cooling_until: Time | null
}

/** A model that the backend refused, while it takes requests for others. */
export interface CoolingModel {
  /** The beginning of its name; null stands for requests whose model is not known: they name none, or nothing needs their body. */
  readonly model: string | null
  readonly state: 'cooling' | 'probing'
  readonly reason: BackendFailureReason
  readonly since: Time
  /** Null if its deadline has passed. */
  readonly until: Time | null
}

export interface BackendFailureJson {
  readonly reason: BackendFailureReason
  readonly at: Time
}

/** It never cools: requests that come to it have nowhere else to go. */
export interface DefaultBackend {
  /** Without user name, password and query. */
  readonly url: string
  readonly connections: number
  readonly max_connections: number
  readonly queue: number
}

export interface RouteJson {
  readonly number: number
  readonly selector: SelectorJson
  /** Keys that the route matches; their patterns may be credentials. */
  readonly match: readonly string[]
  /** Those that share the requests. */
  readonly backends: readonly RouteChoiceJson[]
  /** Those that are tried next, in this order. Their weight is null. */
  readonly fallback: readonly RouteChoiceJson[]
  readonly stick_to: readonly string[]
  /** How many more backends are tried at most. */
  readonly attempts: number
}

export interface RouteChoiceJson {
  readonly name: string
  readonly weight: number | null
  /** Replaces the request's model; null if that stays. */
  readonly model: string | null
}

/** Has a backend that cools tried again at once. */
export interface RetryRequest {
  readonly reason: string
}
