import type { Logger } from 'pino'
import type { ServerConfig } from '../config/config.ts'
import { requestFailure } from '../outbound/request-failure.ts'
import { CounterFamily } from '../telemetry/metrics/metric-families.ts'
import type { MetricMemory } from '../telemetry/metrics/metric-memory.ts'
import type { Tracing } from '../telemetry/tracing/tracing.ts'
import type { Clock } from '../time/clock.ts'

/** How long a closing worker may take to send its remaining spans. */
export const TRACES_CLOSE_MS = 1000

interface TracingParts {
  readonly worker: number
  readonly clock: Clock
  readonly logger: Logger
  readonly metricMemory: MetricMemory
}

/** Loads OpenTelemetry's SDK, but only if EDGE_OTLP_URL is set. */
export async function openTracing({ otlpUrl, otlpSample }: ServerConfig, parts: TracingParts): Promise<Tracing | undefined> {
  if (otlpUrl === undefined) return undefined
  const { Tracing } = await import('../telemetry/tracing/tracing.ts')
  const { worker, clock, logger, metricMemory } = parts
  return new Tracing({
    url: otlpUrl,
    share: otlpSample,
    clock,
    logger: logger.child({ worker }),
    sent: new CounterFamily(metricMemory, 'edge_spans_sent_total').series(),
    dropped: new CounterFamily(metricMemory, 'edge_spans_dropped_total').series(),
    explain: (error) => requestFailure(new Error('', { cause: error })).message,
  })
}
