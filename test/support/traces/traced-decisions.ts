import { pino } from 'pino'
import type { Series } from '../../../src/telemetry/metrics/metric-families.ts'
import type { SenderTiming } from '../../../src/telemetry/tracing/span-sender.ts'
import { Tracing } from '../../../src/telemetry/tracing/tracing.ts'
import { systemClock } from '../../../src/time/clock.ts'

/** Everything at once, a line for each failure, and more time than any machine needs. */
const PATIENT: SenderTiming = { gatherMs: 1, timeoutMs: 60_000, cutMs: 60_000, logMs: 0 }

/** Traces without a service: what they count, and what they log. */
export class TracedDecisions {
  readonly sent = { count: 0 }
  readonly dropped = { count: 0 }
  readonly lines: Record<string, unknown>[] = []
  readonly tracing: Tracing

  constructor(url: string, timing: Partial<SenderTiming> = {}) {
    this.tracing = new Tracing({
      url: new URL(url),
      share: 1,
      clock: systemClock,
      logger: pino({ level: 'info' }, { write: (line: string) => void this.lines.push(JSON.parse(line)) }),
      sent: this.sent as Series,
      dropped: this.dropped as Series,
      explain: ({ message }) => message,
      timing: { ...PATIENT, ...timing },
    })
  }

  decide(times: number): void {
    for (let i = 0; i < times; i++) {
      this.tracing.startDecision('decision', undefined)!.end({ status: 503, decision: undefined, refusal: 'store_unavailable' })
    }
  }

  /** Spans that are neither sent nor lost are on their way. */
  get accounted(): number {
    return this.sent.count + this.dropped.count
  }

  logged(name: string): Record<string, unknown>[] {
    return this.lines.filter(({ event }) => event === name)
  }
}
