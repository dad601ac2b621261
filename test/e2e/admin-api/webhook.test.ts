import { createHmac } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import { join } from 'node:path'
import { pino } from 'pino'
import { describe, expect, test, vi } from 'vitest'
import { readEventsSecret } from '../../../src/config/config-values.ts'
import { Webhook } from '../../../src/runtime/events/webhook.ts'
import type { Series } from '../../../src/telemetry/metrics/counter-family.ts'
import { ADMIN_ENV, askAdmin } from '../../support/admin/admin-client.ts'
import { EVENTS_SECRET, WebhookReceiver } from '../../support/admin/webhook-receiver.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { metric } from '../../support/service/metrics.ts'
import { running, scratchDirectory, thisTest } from '../../support/service/running.ts'
import { until } from '../../support/until.ts'

const REJECTING = bundle(1, policy('api', { rules: [bucketRule('per-key', ['header:x-api-key'], 1, 0.001)] }))
const SECRET = 'sk-secret-of-alice'
const ALICE = { uri: '/x', fields: [['X-Api-Key', SECRET]] as [string, string][] }

describe('EDGE_EVENTS_URL', () => {
  test('gets the events in signed batches, from the start to the end, whatever the log has', async (t) => {
    // However busy the machine is, there is time for the last events.
    const { close } = Webhook.prototype
    const spied = vi.spyOn(Webhook.prototype, 'close').mockImplementation(function (this: Webhook) {
      return close.call(this, 60_000)
    })
    t.onTestFinished(() => spied.mockRestore())
    const receiver = await WebhookReceiver.start(t)
    const stateFile = join(await scratchDirectory(t), 'state')
    const edge = await running({ bundle: REJECTING, env: { ...receiver.env, EDGE_LOG_LEVEL: 'silent', EDGE_STATE_FILE: stateFile } }, t)
    await receiver.untilNamed('started')
    await edge.decideTimes(2, ALICE)
    expect(await receiver.untilNamed('reject')).toMatchObject({ policy: 'api', rule: 'per-key', reason: 'token_bucket_exceeded' })
    await edge.stop()
    expect(receiver.events.map(({ event }) => event)).toEqual(['state_new', 'bundle_applied', 'started', 'reject', 'stopping', 'stopped'])
    const { headers, body, path, id } = receiver.batches[0]!
    expect(path).toBe('/hook?key=a-secret-in-the-query')
    expect(headers).toMatchObject({ 'content-type': 'application/json', 'user-agent': expect.stringMatching(/^edge\//) as string })
    // By the specification, beside the library that the receiver uses
    const signed = `${id}.${String(headers['webhook-timestamp'])}.${body}`
    const key = Buffer.from(EVENTS_SECRET.slice('whsec_'.length), 'base64')
    expect(headers['webhook-signature']).toBe(`v1,${createHmac('sha256', key).update(signed).digest('base64')}`)
    expect(new Set(receiver.batches.map((batch) => batch.id)).size).toBe(receiver.batches.length)
    expect(JSON.stringify(receiver.batches)).not.toContain(SECRET)
    expect(edge.log).toEqual([])
  })

  test.concurrent('that accepts nothing is a problem until it does, and gets the same batch again', async (t) => {
    const receiver = await WebhookReceiver.start(t)
    receiver.respond = (res) => void res.writeHead(500).end('no')
    const edge = await running({ bundle: REJECTING, env: { ...receiver.env, ...ADMIN_ENV } }, t)
    const codes = async (): Promise<string[]> => {
      const { json } = await askAdmin(edge.adminPort, 'GET', 'status')
      return json.problems.map(({ code }: { code: string }) => code)
    }
    await until(async () => (await codes()).includes('events_not_posted'))
    receiver.respond = (res) => void res.writeHead(200).end('ok')
    await until(() => edge.logged('events_posted_again').length === 1)
    expect(await codes()).toEqual([])
    expect(receiver.batches[1]).toMatchObject({ id: receiver.batches[0]!.id, body: receiver.batches[0]!.body })
    const origin = new URL(receiver.url).origin
    expect(edge.logged('events_not_posted')).toMatchObject([{ url: origin, reason: 'it returned 500' }])
    expect(JSON.stringify(edge.log)).not.toMatch(/a-secret-in-the-query|\/hook|whsec_/)
    expect(await metric(edge.adminPort, 'edge_events_dropped_total{to="webhook"}')).toBe(0)
  })

  test.concurrent('that is unreachable does not hold up a shutdown, which says how many events are lost', async (t) => {
    const edge = await running({ bundle: REJECTING, env: { EDGE_EVENTS_URL: 'http://127.0.0.1:9/', EDGE_EVENTS_SECRET: EVENTS_SECRET } }, t)
    await edge.stop()
    expect(edge.log.at(-1)).toMatchObject({ event: 'events_not_posted', url: 'http://127.0.0.1:9', lost: 4 })
  })
})

const QUICK = { gatherMs: 1, timeoutMs: 60_000, firstRetryMs: 1, longestRetryMs: 2, giveUpMs: 3_600_000 }

interface Posting {
  readonly webhook: Webhook
  readonly dropped: Series
  readonly log: Record<string, unknown>[]
  offer(count: number, filler?: string): void
}

function posting(receiver: WebhookReceiver, timing: Partial<typeof QUICK> = {}): Posting {
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

function numbersOf(receiver: WebhookReceiver): unknown[] {
  return receiver.named('reject').map(({ number }) => number)
}

describe('what is posted', () => {
  test('comes in order, in batches of bounded size, over few connections', async () => {
    const receiver = await WebhookReceiver.start()
    receiver.respond = (res) => void res.writeHead(200).end('ok')
    const { offer } = posting(receiver)
    offer(1200)
    offer(50, 'x'.repeat(16_000))
    await until(() => receiver.events.length === 1250)
    expect(numbersOf(receiver)).toEqual(Array.from({ length: 1250 }, (_, i) => i))
    expect(Math.max(...receiver.batches.map(({ events }) => events.length))).toBe(500)
    expect(Math.max(...receiver.batches.map(({ body }) => body.length))).toBeLessThan(140 * 1024)
    expect(receiver.connections).toBeLessThan(receiver.batches.length)
  })

  test.each<[string, string, (res: ServerResponse) => void]>([
    ['returns 503', 'it returned 503', (res) => void res.writeHead(503).end()],
    ['redirects', 'it returned 308: redirects are not followed', (res) => void res.writeHead(308, { Location: '/other' }).end()],
    ['closes the connection', 'the connection was closed before the response was complete', (res) => void res.destroy()],
    ['sends half a head', 'the connection was closed before the response was complete', (res) => void res.socket!.end('HTTP/1.1 200 O')],
    ['speaks something else', 'it does not use HTTP', (res) => void res.socket!.end('SSH-2.0-OpenSSH\r\n')],
    ['hangs', 'no response within 0.05 s', () => {}],
    ['returns an endless error', 'it returned 500', (res) => void endless(res.writeHead(500))],
  ])('is posted again with the same id to a receiver that %s', async (_, reason, respond) => {
    const receiver = await WebhookReceiver.start()
    receiver.respond = (res) => {
      if (receiver.batches.length < 3) respond(res)
      else res.writeHead(200).end()
    }
    const { offer, log } = posting(receiver, { timeoutMs: reason.startsWith('no response') ? 50 : 60_000 })
    offer(2)
    await until(() => log.some(({ event }) => event === 'events_posted_again'))
    // More often where a busy machine is later than a short timeout.
    expect(receiver.batches.length).toBeGreaterThanOrEqual(3)
    const { id, body } = receiver.batches[0]!
    for (const batch of receiver.batches) expect(batch).toMatchObject({ id, body, path: '/hook?key=a-secret-in-the-query' })
    expect(log).toMatchObject([{ event: 'events_not_posted', reason }, { event: 'events_posted_again' }])
    expect(numbersOf(receiver).slice(-2)).toEqual([0, 1])
  })

  test('to a receiver whose response has no end is accepted by its status, and the rest is not read', async () => {
    const receiver = await WebhookReceiver.start()
    const ends: Promise<number>[] = []
    receiver.respond = (res) => void ends.push(endless(res.writeHead(200)))
    const { offer, log } = posting(receiver)
    offer(1)
    await until(() => ends.length === 1)
    // The system's buffers take some megabytes before the writer notices.
    expect(await ends[0]).toBeLessThan(64 * 1024 ** 2)
    offer(1)
    await until(() => receiver.batches.length === 2)
    expect(log).toEqual([])
  })

  test('waits in a queue of bounded size: beyond it the oldest is dropped, counted and told', async () => {
    const receiver = await WebhookReceiver.start()
    const held: ServerResponse[] = []
    receiver.respond = (res) => void held.push(res)
    const { offer, dropped, log } = posting(receiver, { timeoutMs: 60_000 })
    offer(500)
    await until(() => held.length === 1)
    offer(20_000)
    const lost = dropped.count
    expect(lost).toBe(20_500 - 20 * 500)
    receiver.respond = (res) => void res.writeHead(200).end()
    held[0]!.writeHead(200).end()
    await until(() => numbersOf(receiver).length === 20_500 - lost)
    const numbers = numbersOf(receiver) as number[]
    expect(numbers.slice(0, 500)).toEqual(Array.from({ length: 500 }, (_, i) => i))
    expect(numbers.at(-1)).toBe(20_499)
    const told = receiver.named('events_dropped').reduce((sum, event) => sum + Number(event['dropped']), 0)
    expect([told, log]).toEqual([lost, []])
  })

  test('that comes in one flood is dropped from its beginning, and the rest arrives in order', async () => {
    const receiver = await WebhookReceiver.start()
    const { offer, dropped } = posting(receiver)
    offer(15_000)
    await until(() => numbersOf(receiver).at(-1) === 14_999)
    expect(dropped.count).toBe(5000)
    expect(numbersOf(receiver)).toEqual(Array.from({ length: 10_000 }, (_, i) => i + 5000))
    expect(receiver.events[0]).toMatchObject({ event: 'events_dropped', dropped: 5000 })
  })

  test('is given up when it was not accepted for very long, and does not hold up what follows', async () => {
    const receiver = await WebhookReceiver.start()
    receiver.respond = (res, { body }) => void res.writeHead(body.includes('"number":0,') ? 413 : 200).end()
    const { offer, dropped } = posting(receiver, { giveUpMs: 20 })
    offer(1)
    await until(() => receiver.batches.length > 0)
    offer(1)
    await until(() => numbersOf(receiver).includes(1))
    expect(dropped.count).toBeGreaterThanOrEqual(1)
  })

  test('is posted once more at the end, and no longer than there is time', async () => {
    const receiver = await WebhookReceiver.start()
    const { offer, webhook, log, dropped } = posting(receiver, { gatherMs: 60_000 })
    offer(3)
    await webhook.close(60_000)
    expect(numbersOf(receiver)).toEqual([0, 1, 2])
    const slow = posting(receiver, { timeoutMs: 60_000 })
    receiver.respond = () => {}
    slow.offer(2)
    await until(() => receiver.batches.length === 2)
    await slow.webhook.close(20)
    expect([log, dropped.count, slow.dropped.count]).toEqual([[], 0, 2])
    expect(slow.log).toMatchObject([{ event: 'events_not_posted', reason: 'there was no time left', lost: 2 }])
  })
})

/** Writes until the other side has enough. Returns how many bytes that took. */
function endless(res: ServerResponse): Promise<number> {
  let bytes = 0
  const write = (): void => {
    while (!res.destroyed) {
      bytes += 65_536
      if (!res.write(Buffer.alloc(65_536))) return void res.once('drain', write)
    }
  }
  res.on('error', () => {})
  write()
  return new Promise((resolve) => res.once('close', () => resolve(bytes)))
}
