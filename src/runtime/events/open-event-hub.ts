import type { Logger } from 'pino'
import type { Clock } from '../../clock.ts'
import { hasEvents, type ServerConfig } from '../../config/config.ts'
import { descriptorLimit } from '../../files/descriptor-limit.ts'
import { connectionLimits } from '../../listen/connection-limits.ts'
import { CounterFamily } from '../../telemetry/metrics/counter-family.ts'
import type { MetricMemory } from '../../telemetry/metrics/metric-memory.ts'
import { VERSION } from '../../version.ts'
import type { Problems } from '../control/problems.ts'
import type { ToWorker } from '../threads/messages.ts'
import { EventHub } from './event-hub.ts'
import type { Webhook } from './webhook.ts'

interface OpenParts {
  readonly eventWatch: SharedArrayBuffer
  readonly problems: Problems
  readonly metrics: MetricMemory
  readonly logger: Logger
  readonly clock: Clock
  readonly send: (worker: number, message: ToWorker) => void
}

/** Of all workers together. */
const MAX_READERS = 128

/** Where events of all threads come together; undefined where nobody can watch them. */
export async function openEventHub(config: ServerConfig, parts: OpenParts): Promise<EventHub | undefined> {
  if (!hasEvents(config)) return undefined
  const webhook = await openWebhook(config, parts)
  return new EventHub({ ...parts, wallMs: () => parts.clock.wallMs(), maxReaders: maxReaders(config), webhook })
}

async function openWebhook(config: ServerConfig, { metrics, logger, clock }: OpenParts): Promise<Webhook | undefined> {
  const { eventsUrl: url, eventsSecret } = config
  if (url === undefined) return undefined
  const { Webhook } = await import('./webhook.ts')
  const dropped = new CounterFamily(metrics, 'edge_events_dropped_total').series('webhook')
  return new Webhook({ url, key: eventsSecret!, logger, dropped, wallMs: () => clock.wallMs(), userAgent: `edge/${VERSION}` })
}

/** Each has a connection, and operators need some for other things. */
function maxReaders(config: ServerConfig): number {
  return Math.min(MAX_READERS, Math.floor(connectionLimits(descriptorLimit(), config).admin / 2))
}
