import { describe, expect, test } from 'vitest'
import { ADMIN_ENV, askAdmin } from '../../support/admin/admin-client.ts'
import { bundle } from '../../support/bundles/bundles.ts'
import { sized } from '../../support/run/property-runs.ts'
import { metric } from '../../support/service/metrics.ts'
import { running } from '../../support/service/running.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { OtlpReceiver } from '../../support/traces/otlp-receiver.ts'
import { callerSpan } from '../../support/traces/trace-contexts.ts'
import { TracedDecisions } from '../../support/traces/traced-decisions.ts'
import { until } from '../../support/until.ts'

/** More than go into one request; as many as may wait in the full run. */
const WAITING = sized(600, 2048)
const TRACED = { fields: [['traceparent', callerSpan().traceparent]] as [string, string][] }

describe.concurrent('the end of a service', () => {
  test('sends all that waits, in as many requests as it takes', async (t) => {
    const receiver = await OtlpReceiver.start(t)
    const traces = new TracedDecisions(receiver.url, { gatherMs: 60_000 })
    traces.decide(WAITING)
    await traces.tracing.close(60_000)
    expect([receiver.spans.length, traces.sent.count, traces.dropped.count]).toEqual([WAITING, WAITING, 0])
    expect(receiver.exports.length).toBeGreaterThan(1)
  })

  test('does not wait for a collector that is silent', async (t) => {
    const receiver = await OtlpReceiver.start(t)
    receiver.respond = () => {}
    const edge = await running({ bundle: bundle(1), env: receiver.env }, t)
    await edge.decide(TRACED)
    await until(() => receiver.spans.length === 1)
    await edge.stop()
    expect(await untilLogged(edge, 'traces_not_sent')).toMatchObject([{ worker: 1, reason: 'shutdown left no time to send them', lost: 1 }])
    expect(await untilLogged(edge, 'stopped')).toHaveLength(1)
  })
})

test('operators are told of a collector that accepts nothing, and told again when it does', async (t) => {
  const receiver = await OtlpReceiver.start(t)
  receiver.respond = (res) => void res.writeHead(401).end()
  const edge = await running({ bundle: bundle(1), env: { ...ADMIN_ENV, ...receiver.env, EDGE_OTLP_SAMPLE: '1' } }, t)
  expect(await edge.decideTimes(3)).toEqual([200, 200, 200])
  await until(() => edge.logged('traces_not_sent').length > 0)
  const problems = async (): Promise<unknown> => (await askAdmin(edge.adminPort, 'GET', 'status')).json.problems
  const message = 'traces were not sent to EDGE_OTLP_URL and are lost: it returned 401'
  expect(await problems()).toMatchObject([{ code: 'traces_not_sent', message }])
  await until(async () => (await metric(edge.adminPort, 'edge_spans_dropped_total')) === 3)
  receiver.respond = (res) => void res.end('{}')
  await edge.decide()
  await until(() => edge.logged('traces_sent_again').length > 0)
  expect(await problems()).toEqual([])
  expect(await metric(edge.adminPort, 'edge_spans_sent_total')).toBe(1)
})
