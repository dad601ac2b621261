import { lookup as systemLookup } from 'node:dns'
import type { LookupFunction } from 'node:net'
import { guardedLookup } from '../../outbound/guarded-lookup.ts'
import type { PlannedBackend } from '../../policy/routes/planned-backend.ts'
import type { Routing } from '../../policy/routes/routing.ts'
import type { SecretValues } from '../../secrets/header-template.ts'
import type { BackendMetrics } from '../../telemetry/metrics/backend-metrics.ts'
import type { RouteMetrics, RouteSeries } from '../../telemetry/metrics/route-metrics.ts'
import type { Clock } from '../../time/clock.ts'
import { Backend, type BackendListener, type BackendOptions } from '../backend/backend.ts'
import type { BackendHealth } from './backend-health.ts'
import { type BackendSlots, placesEach } from './backend-slots.ts'
import type { CoolingReports } from './cooling-reports.ts'

export interface RoutedBackendsParts {
  readonly slots: BackendSlots
  readonly health: BackendHealth
  readonly clock: Clock
  readonly secrets: SecretValues
  readonly metrics: BackendMetrics
  readonly routeMetrics: RouteMetrics
  readonly reports: CoolingReports
  /** What applies to every backend that does not say otherwise. */
  readonly timeouts: Omit<BackendOptions, 'url' | 'lookup'>
  /** `EDGE_BACKEND_URL`, which shares the connections; undefined if there is none. */
  readonly lastResort: Backend | undefined
  /** How many connections all backends may have together. */
  readonly maxConnections: number
  /** Resolves names; the system's resolver unless a test has its own. */
  readonly lookup?: LookupFunction
}

/** The connections to one backend, and how many calls use them. */
export interface UsedBackend {
  readonly backend: Backend
  readonly name: string
  readonly identity: string
  readonly series: RouteSeries
  users: number
}

/**
 * A worker's connections to the backends that routes name. They are kept when the bundle changes, as long as the URL and the timeout of a backend stay the
 * same; those of a backend that the active plan does not name are closed when the last call is over.
 */
export class RoutedBackends {
  readonly parts: RoutedBackendsParts
  readonly #open = new Map<string, UsedBackend>()
  readonly #slots = new WeakMap<Routing, ReadonlyMap<string, number>>()
  #wanted: ReadonlySet<string> = new Set()

  constructor(parts: RoutedBackendsParts) {
    this.parts = parts
  }

  /** To be called when a plan becomes active, with its routes if it has some. Requests of the plan before it may still be under way. */
  turnTo(routing: Routing | undefined): void {
    const { lastResort, maxConnections } = this.parts
    const share = routing === undefined ? maxConnections : this.#placesEach(routing)
    this.#wanted = new Set(routing && [...routing.backends.values()].map((planned) => this.#identityOf(routing, planned)))
    lastResort?.limitConnections(share)
    for (const used of [...this.#open.values()]) {
      if (this.#wanted.has(used.identity)) used.backend.limitConnections(share)
      else this.#closeUnused(used)
    }
  }

  /** Returns the slots of a plan's backends by name. */
  slotsOf(routing: Routing): ReadonlyMap<string, number> {
    let slots = this.#slots.get(routing)
    if (slots === undefined) {
      slots = this.parts.slots.claim([...routing.backends.values()], this.parts.clock.nowMs())
      this.#slots.set(routing, slots)
    }
    return slots
  }

  /** To be called once for each call, which ends with `giveUp`. */
  use(routing: Routing, planned: PlannedBackend): UsedBackend {
    const identity = this.#identityOf(routing, planned)
    let used = this.#open.get(identity)
    if (used === undefined) {
      const { slots, timeouts, metrics, routeMetrics, lookup = systemLookup } = this.parts
      const headersTimeoutMs = planned.headersTimeoutMs ?? timeouts.headersTimeoutMs
      const places = slots.placesOf(this.slotsOf(routing).get(planned.name)!, this.#placesEach(routing))
      const options = { ...timeouts, headersTimeoutMs, url: planned.url, lookup: guardedLookup(lookup, isLoopbackOnly(planned)) }
      const series = routeMetrics.of(planned.name)
      const backend = new Backend(options, places, summedListener(metrics, series))
      used = { name: planned.name, backend, identity, series, users: 0 }
      this.#open.set(identity, used)
    }
    used.users++
    return used
  }

  giveUp(used: UsedBackend): void {
    used.users--
    if (!this.#wanted.has(used.identity)) this.#closeUnused(used)
  }

  /** The connections to each backend, by its name. A bundle that changed a backend leaves those that are still in use. */
  get open(): Iterable<UsedBackend> {
    return this.#open.values()
  }

  close(): void {
    for (const { backend } of this.#open.values()) backend.close()
    this.#open.clear()
  }

  #placesEach({ backends }: Routing): number {
    const { lastResort, maxConnections } = this.parts
    return placesEach(maxConnections, backends.size, lastResort !== undefined)
  }

  #closeUnused(used: UsedBackend): void {
    if (used.users > 0) return
    used.backend.close()
    this.#open.delete(used.identity)
  }

  /** The number of a slot stands for a name and a URL, and its connections are counted there. */
  #identityOf(routing: Routing, planned: PlannedBackend): string {
    return `${this.slotsOf(routing).get(planned.name)} ${planned.headersTimeoutMs} ${isLoopbackOnly(planned)}`
  }
}

/** Secrets are not sent in the clear to another machine, whatever a name such as `localhost` resolves to. */
function isLoopbackOnly({ url, headers }: PlannedBackend): boolean {
  return url.protocol === 'http:' && headers.some(({ parts }) => parts.names.length > 0)
}

/** Adds up what the backends of a worker report, because they share one series; `own` are those of the backend alone, if a route names it. */
export function summedListener({ connections, queue, queueSeconds }: BackendMetrics, own?: RouteSeries): BackendListener {
  let open = 0
  let waiting = 0
  return {
    onOpenConnections: (count) => {
      connections.count += count - open
      if (own !== undefined) own.connections.count += count - open
      open = count
    },
    onQueueLength: (count) => {
      queue.count += count - waiting
      if (own !== undefined) own.queue.count += count - waiting
      waiting = count
    },
    onQueueWait: (seconds) => queueSeconds.observe(seconds),
  }
}
