import type { Logger } from 'pino'
import type { Clock } from '../clock.ts'
import { CounterFamily } from '../telemetry/metrics/counter-family.ts'
import type { MetricMemory } from '../telemetry/metrics/metric-memory.ts'
import { AcceptErrors } from './accept-errors.ts'
import type { ConnectionShares } from './connection-shares.ts'
import type { ConnectionKind, ConnectionSlots } from './connection-slots.ts'
import type { ListenerTimeouts, PortOptions } from './http-listener.ts'
import { type ListenerName, listener } from './listeners.ts'

export interface ConnectionParts {
  readonly clock: Clock
  readonly logger: Logger
  readonly metricMemory: MetricMemory
  readonly shares: ConnectionShares
  /** How many connections there may be, for the whole process. */
  readonly slots: Readonly<Record<ConnectionKind, ConnectionSlots>>
}

/** What all servers of a worker have in common: how long connections live, how many there may be, and what is logged of those refused. */
export function portOptionsOf(timeouts: ListenerTimeouts, parts: ConnectionParts): (name: ListenerName) => PortOptions {
  const { clock, logger, metricMemory, shares, slots } = parts
  const acceptErrors = new AcceptErrors(logger, () => clock.nowMs())
  const refused = new CounterFamily(metricMemory, 'edge_connections_refused_total')
  return (name) => {
    const refusals = refused.series(name)
    const onFull = (): void => {
      refusals.count++
      acceptErrors.noteFull(name, slots[name].max)
    }
    return {
      timeouts,
      peers: listener(name).peers,
      shares,
      slots: slots[name],
      onFull,
      onAcceptError: (error) => acceptErrors.note(error),
    }
  }
}
