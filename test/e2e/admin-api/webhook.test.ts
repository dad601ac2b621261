import { createHmac } from 'node:crypto'
import { join } from 'node:path'
import { describe, expect, test, vi } from 'vitest'
import { Webhook } from '../../../src/control/events/webhook.ts'
import { ADMIN_ENV, askAdmin } from '../../support/admin/admin-client.ts'
import { numbersOf, posting } from '../../support/admin/posting.ts'
import { EVENTS_SECRET, WebhookReceiver } from '../../support/admin/webhook-receiver.ts'
import { bucketRule, bundle, matching, policy, unlimitedRule } from '../../support/bundles/bundles.ts'
import { sized } from '../../support/run/property-runs.ts'
import { metric } from '../../support/service/metrics.ts'
import { running, scratchDirectory } from '../../support/service/running.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { until } from '../../support/until.ts'

const PER_KEY = matching({ 'header:x-api-key': '*' }, bucketRule('per-key', ['header:x-api-key'], 1, 0.001))
const REJECTING = bundle(1, policy('api', { rules: [PER_KEY, unlimitedRule('others', 'else')] }))
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
    expect(await untilLogged(edge, 'events_not_posted')).toMatchObject([{ url: origin, reason: 'it returned 500' }])
    expect(JSON.stringify(edge.log)).not.toMatch(/a-secret-in-the-query|\/hook|whsec_/)
    expect(await metric(edge.adminPort, 'edge_events_dropped_total{to="webhook"}')).toBe(0)
  })

  test('that says when to come again, as Slack does, is asked again then, and within ten minutes', async (t) => {
    const receiver = await WebhookReceiver.start(t)
    const waits = [['1'], ['100000'], []]
    receiver.respond = (res) =>
      void res
        .writeHead(
          429,
          waits[receiver.batches.length - 1]!.flatMap((wait) => ['Retry-After', wait]),
        )
        .end()
    const paused = vi.spyOn(globalThis, 'setTimeout')
    t.onTestFinished(() => paused.mockRestore())
    const { offer, webhook } = posting(receiver, { firstRetryMs: 3_000_000, longestRetryMs: 3_000_000 })
    offer(1)
    await until(() => receiver.batches.length === 2)
    expect(receiver.batches[1]!.id).toBe(receiver.batches[0]!.id)
    await until(() => paused.mock.calls.some(([, ms]) => ms === 600_000))
    await webhook.close(60_000)
    expect(receiver.batches).toHaveLength(3)
  })

  test.concurrent('that is unreachable does not hold up a shutdown, which says how many events are lost', async (t) => {
    const edge = await running({ bundle: REJECTING, env: { EDGE_EVENTS_URL: 'http://127.0.0.1:9/', EDGE_EVENTS_SECRET: EVENTS_SECRET } }, t)
    await edge.stop()
    expect(edge.log.at(-1)).toMatchObject({ event: 'events_not_posted', url: 'http://127.0.0.1:9' })
    // One more where a busy machine has tried before the shutdown: that it failed is an event too.
    expect([4, 5]).toContain(edge.log.at(-1)!['lost'])
  })
})

describe('what is posted', () => {
  test('comes in order, in batches of bounded size, over few connections', async () => {
    const receiver = await WebhookReceiver.start()
    receiver.respond = (res) => void res.writeHead(200).end('ok')
    const { offer } = posting(receiver)
    // More than one batch of each: the receiver's library hashes slowly.
    const [small, large] = [sized(600, 1200), sized(10, 50)]
    offer(small)
    offer(large, 'x'.repeat(16_000))
    await until(() => receiver.events.length === small + large)
    expect(numbersOf(receiver)).toEqual(Array.from({ length: small + large }, (_, i) => i))
    expect(Math.max(...receiver.batches.map(({ events }) => events.length))).toBe(500)
    expect(Math.max(...receiver.batches.map(({ body }) => body.length))).toBeLessThan(140 * 1024)
    expect(receiver.connections).toBeLessThan(receiver.batches.length)
  })
})
