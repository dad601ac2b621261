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
  readonly timeouts: Omit<BackendOptions, 'url'>
  /** How many connections all backends of a plan may have. */
  readonly maxConnections: () => number
}

/** The connections to one backend, and how many calls use them. */
export interface UsedBackend {
  readonly backend: Backend
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
  #newest: Routing | undefined
  #wanted: ReadonlySet<string> = new Set()

  constructor(parts: RoutedBackendsParts) {
    this.parts = parts
  }

  /** Returns the slots of a plan's backends by name. */
  slotsOf(routing: Routing): ReadonlyMap<string, number> {
    let slots = this.#slots.get(routing)
    if (slots === undefined) {
      slots = this.parts.slots.claim([...routing.backends.values()], this.parts.clock.nowMs())
      this.#slots.set(routing, slots)
      this.#turnTo(routing)
    }
    return slots
  }

  /** To be called once for each call, which ends with `giveUp`. */
  use(routing: Routing, planned: PlannedBackend): UsedBackend {
    const identity = identityOf(planned)
    let used = this.#open.get(identity)
    if (used === undefined) {
      const { slots, timeouts, maxConnections, metrics, routeMetrics } = this.parts
      const slot = this.slotsOf(routing).get(planned.name)!
      const headersTimeoutMs = planned.headersTimeoutMs ?? timeouts.headersTimeoutMs
      const places = slots.placesOf(slot, placesEach(maxConnections(), routing.backends.size))
      const series = routeMetrics.of(planned.name)
      const backend = new Backend({ ...timeouts, headersTimeoutMs, url: planned.url }, places, summedListener(metrics, series))
      used = { backend, identity, series, users: 0 }
      this.#open.set(identity, used)
    }
    used.users++
    return used
  }

  giveUp(used: UsedBackend): void {
    used.users--
    if (!this.#wanted.has(used.identity)) this.#closeUnused(used)
  }

  close(): void {
    for (const { backend } of this.#open.values()) backend.close()
    this.#open.clear()
  }

  #turnTo(routing: Routing): void {
    if (routing === this.#newest) return
    this.#newest = routing
    this.#wanted = new Set([...routing.backends.values()].map(identityOf))
    for (const used of [...this.#open.values()]) if (!this.#wanted.has(used.identity)) this.#closeUnused(used)
  }

  #closeUnused(used: UsedBackend): void {
    if (used.users > 0) return
    used.backend.close()
    this.#open.delete(used.identity)
  }
}

function identityOf({ name, url, headersTimeoutMs }: PlannedBackend): string {
  return `${name} ${url.href} ${headersTimeoutMs}`
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
