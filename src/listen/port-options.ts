import type { Logger } from 'pino'
import { CounterFamily } from '../telemetry/metrics/metric-families.ts'
import type { MetricMemory } from '../telemetry/metrics/metric-memory.ts'
import { Sampler } from '../telemetry/sampler.ts'
import type { Clock } from '../time/clock.ts'
import type { ConnectionSecurity } from './admitted-connections.ts'
import type { ConnectionKind, ConnectionShares, ConnectionSlots } from './connection-slots.ts'
import type { ListenerTimeouts, PortOptions } from './http-listener.ts'
import { type ListenerName, listener } from './listeners.ts'

export interface ConnectionParts {
  readonly clock: Clock
  readonly logger: Logger
  readonly metricMemory: MetricMemory
  readonly shares: ConnectionShares
  /** Slots for the connections of the whole process. */
  readonly slots: Readonly<Record<ConnectionKind, ConnectionSlots>>
  /** Returns what secures the connections of a listener; undefined if they stay plain. */
  readonly securityOf?: ((name: ListenerName) => ConnectionSecurity | undefined) | undefined
}

/** Returns the options that all servers of a worker share: how long connections live, how many there may be, and how refused ones are logged. */
export function portOptionsOf(timeouts: ListenerTimeouts, parts: ConnectionParts): (name: ListenerName) => PortOptions {
  const { clock, logger, metricMemory, shares, slots, securityOf } = parts
  const acceptErrors = new AcceptErrors(logger, () => clock.nowMs())
  const refused = new CounterFamily(metricMemory, 'edge_connections_refused_total')
  return (name) => {
    const refusals = refused.series(name)
    const onFull = (): void => {
      refusals.count++
      acceptErrors.noteFull(name, slots[name].total)
    }
    return {
      timeouts,
      peers: listener(name).peers,
      shares,
      slots: slots[name],
      onFull,
      security: securityOf?.(name),
      onAcceptError: (error) => acceptErrors.note(error),
    }
  }
}

/** Logs connections that could not be accepted or got no slot, once per second for each reason. */
class AcceptErrors {
  readonly #logger: Logger
  readonly #nowMs: () => number
  readonly #byReason = new Sampler<string>(new Map())

  constructor(logger: Logger, nowMs: () => number) {
    this.#logger = logger
    this.#nowMs = nowMs
  }

  /** Notes a connection that the system could not accept. */
  note(error: NodeJS.ErrnoException): void {
    const reason = error.code ?? error.message
    const unlogged = this.#byReason.admit(reason, this.#nowMs())
    if (unlogged !== undefined) this.#logger.error({ event: 'accept_failed', reason, unlogged }, 'a connection could not be accepted')
  }

  /** Notes a connection that we refused because the listener has as many as the limit of open files allows. */
  noteFull(listener: string, max: number): void {
    const reason = 'too_many_connections'
    const unlogged = this.#byReason.admit(listener, this.#nowMs())
    if (unlogged === undefined) return
    this.#logger.error(
      { event: 'accept_failed', reason, port: listener, max, unlogged },
      'the limit on open files allows no more connections',
    )
  }
}
