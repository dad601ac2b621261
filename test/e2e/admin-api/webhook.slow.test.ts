import type { ServerResponse } from 'node:http'
import { describe, expect, test } from 'vitest'
import { numbersOf, posting } from '../../support/admin/posting.ts'
import { WebhookReceiver } from '../../support/admin/webhook-receiver.ts'
import { describeWithOpenssl } from '../../support/service/openssl-suite.ts'
import { scratchDirectory, serving } from '../../support/service/running.ts'
import { selfSigned } from '../../support/service/self-signed.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { until } from '../../support/until.ts'

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

describeWithOpenssl('EDGE_EVENTS_URL over TLS', () => {
  test.concurrent('gets none if nobody vouches for it', async (t) => {
    const receiver = await WebhookReceiver.start(t, await selfSigned(await scratchDirectory(t)))
    const cli = await serving(receiver.env, [], t)
    expect(await untilLogged(cli, 'events_not_posted')).toMatchObject([{ reason: expect.stringContaining('certificate') as string }])
    expect(receiver.batches).toEqual([])
  })

  test.concurrent('gets events if NODE_EXTRA_CA_CERTS vouches for its certificate', async (t) => {
    const certificate = await selfSigned(await scratchDirectory(t))
    const receiver = await WebhookReceiver.start(t, certificate)
    const cli = await serving({ ...receiver.env, NODE_EXTRA_CA_CERTS: certificate.path }, [], t)
    await receiver.untilNamed('started')
    expect(await cli.stop()).toBe(0)
    expect(receiver.events.at(-1)).toMatchObject({ event: 'stopped' })
    expect(`${cli.stdout}${cli.stderr}`).not.toMatch(/a-secret-in-the-query|whsec_/)
  })
})

describe('what is posted', () => {
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
    expect(slow.log).toMatchObject([{ event: 'events_not_posted', reason: 'shutdown left no time to send them', lost: 2 }])
  })
})
