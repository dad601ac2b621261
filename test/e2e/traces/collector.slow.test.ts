import type { ServerResponse } from 'node:http'
import { describe, expect, test } from 'vitest'
import type { SenderTiming } from '../../../src/telemetry/tracing/span-sender.ts'
import { bundle } from '../../support/bundles/bundles.ts'
import { RawBackend } from '../../support/proxy/backend.ts'
import { running } from '../../support/service/running.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { OtlpReceiver } from '../../support/traces/otlp-receiver.ts'
import { TracedDecisions } from '../../support/traces/traced-decisions.ts'
import { until } from '../../support/until.ts'

const MAX_WAITING = 2048

describe.concurrent('a collector that does not accept spans loses them, and nothing else', () => {
  test.for<[string, Partial<SenderTiming>, (res: ServerResponse, other: string) => void, string | RegExp]>([
    ['fails', {}, (res) => void res.writeHead(500, 'a-text-of-its-own').end('another'), 'it returned 500'],
    // Later than the SDK would try again
    ['is overloaded', {}, (res) => void res.writeHead(503, { 'Retry-After': '3600' }).end(), 'it returned 503'],
    ['redirects', {}, (res, url) => void res.writeHead(307, { Location: url }).end(), 'it returned 307'],
    // Too short for a second try; a machine may be busy for longer.
    ['breaks off', { timeoutMs: 700 }, (res) => void res.destroy(), /^(?:socket hang up|Request timed out)$/],
    ['is silent', { timeoutMs: 100 }, () => {}, 'Request timed out'],
    ['never ends its response', { cutMs: 200 }, (res) => dribble(res.writeHead(500)), /^(?:aborted|socket hang up)$/],
    ['responds with too much', {}, (res) => flood(res.writeHead(400)), 'its response has more than 65536 bytes'],
    ['accepts with too much', {}, (res) => flood(res.writeHead(200)), 'its response has more than 65536 bytes'],
  ])('one that %s', async ([, timing, respond, reason], t) => {
    const [receiver, other] = await Promise.all([OtlpReceiver.start(t), OtlpReceiver.start(t)])
    receiver.respond = (res) => respond(res, other.url)
    const traces = new TracedDecisions(receiver.url, timing)
    traces.decide(3)
    await until(() => traces.accounted === 3)
    expect([traces.sent.count, traces.dropped.count, other.exports.length]).toEqual([0, 3, 0])
    const { url } = receiver
    const line = {
      event: 'traces_not_sent',
      url,
      reason: expect.stringMatching(reason),
      lost: 3,
      msg: 'traces were not sent to EDGE_OTLP_URL and are lost',
    }
    expect(traces.lines).toMatchObject([line])
    receiver.respond = (res) => void res.end('{}')
    await until(() => {
      traces.decide(1)
      return traces.sent.count > 0
    })
    expect(traces.logged('traces_sent_again')).not.toEqual([])
    await traces.tracing.close(1000)
  })

  test('what it says of spans that it takes is not read', async (t) => {
    const receiver = await OtlpReceiver.start(t)
    receiver.respond = (res) => void res.end('{"partialSuccess":{"rejectedSpans":{"a":[["not JSON')
    const traces = new TracedDecisions(receiver.url)
    traces.decide(2)
    await until(() => traces.sent.count === 2)
    expect(traces.lines).toEqual([])
    await traces.tracing.close(1000)
  })
})

test.concurrent('more spans than can wait are dropped, counted, and logged once a minute', async (t) => {
  const receiver = await OtlpReceiver.start(t)
  receiver.respond = () => {}
  const traces = new TracedDecisions(receiver.url, { logMs: 60_000 })
  traces.decide(MAX_WAITING + 500)
  expect(traces.dropped.count).toBe(500)
  await until(() => receiver.exports.length > 0)
  traces.decide(500)
  expect(traces.dropped.count).toBe(1000)
  expect(traces.lines).toMatchObject([{ event: 'traces_not_sent', reason: 'too many spans were waiting to be sent', lost: 1 }])
  await traces.tracing.close(1)
  expect(traces.dropped.count).toBe(MAX_WAITING + 1000)
})

test('why it fails is said in words', async (t) => {
  const ssh = await RawBackend.start(({ socket }) => void socket.end('SSH-2.0-OpenSSH_9.2\r\n'), undefined, t)
  const edge = await running({ bundle: bundle(1), env: { EDGE_OTLP_URL: ssh.url, EDGE_OTLP_SAMPLE: '1' } }, t)
  await edge.decide()
  expect(await untilLogged(edge, 'traces_not_sent')).toMatchObject([{ reason: 'it does not use HTTP' }])
})

function dribble(res: ServerResponse): void {
  const timer = setInterval(() => res.write('.'), 20)
  res.on('close', () => clearInterval(timer))
}

function flood(res: ServerResponse): void {
  const more = (): void => {
    while (!res.destroyed && res.write(Buffer.alloc(65_536)));
  }
  res.on('drain', more)
  more()
}
