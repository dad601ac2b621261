import { pino } from 'pino'
import { readEventsSecret } from '../../../src/config/config-values.ts'
import { Webhook } from '../../../src/control/events/webhook.ts'
import type { Series } from '../../../src/telemetry/metrics/metric-families.ts'
import { thisTest } from '../service/running.ts'
import { EVENTS_SECRET, type WebhookReceiver } from './webhook-receiver.ts'

export const QUICK = { gatherMs: 1, timeoutMs: 60_000, firstRetryMs: 1, longestRetryMs: 2, longestAskedMs: 600_000, giveUpMs: 3_600_000 }

export interface Posting {
  readonly webhook: Webhook
  readonly dropped: Series
  readonly log: Record<string, unknown>[]
  offer(count: number, filler?: string): void
}

export function posting(receiver: WebhookReceiver, timing: Partial<typeof QUICK> = {}): Posting {
  const log: Record<string, unknown>[] = []
  const logger = pino({}, { write: (line: string) => void log.push(JSON.parse(line) as Record<string, unknown>) })
  const dropped = { count: 0 } as Series
  const key = readEventsSecret(EVENTS_SECRET)!
  const url = new URL(receiver.url)
  const webhook = new Webhook({ url, key, logger, dropped, wallMs: Date.now, userAgent: 'edge/test', timing: { ...QUICK, ...timing } })
  thisTest.onTestFinished(() => webhook.close(0))
  let number = 0
  return {
    webhook,
    dropped,
    log,
    offer(count, filler = '') {
      for (let i = 0; i < count; i++) {
        const line = JSON.stringify({ event: 'reject', number: number++, filler })
        webhook.offer({ name: 'reject', line })
      }
    },
  }
}

export function numbersOf(receiver: WebhookReceiver): unknown[] {
  return receiver.named('reject').map(({ number }) => number)
}
