import { expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { authorization, checkRequest } from '../../support/grpc/ext-authz.ts'
import { rateLimitService } from '../../support/grpc/rate-limit.ts'
import { RawClient } from '../../support/proxy/proxy.ts'
import { runningRedis } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { sharing } from '../../support/redis/sharing-edge.ts'
import { DECISION, questionBytes } from '../../support/service/doors.ts'
import { OtlpReceiver } from '../../support/traces/otlp-receiver.ts'
import { closeTracesPatiently } from '../../support/traces/patient-traces.ts'
import { callerSpan } from '../../support/traces/trace-contexts.ts'

const BUNDLE = bundle(
  1,
  policy('p', { rules: [bucketRule('r', [], 99)] }),
  policy('limits', { selector: { domain: 'd' }, rules: [bucketRule('users', ['descriptor:user'], 9)] }),
)

describeWithRedis('decisions that wait for Redis', () => {
  test('have spans at every door, each of its own request', async () => {
    closeTracesPatiently()
    const [redis, receiver] = await Promise.all([runningRedis(), OtlpReceiver.start()])
    const edge = await sharing(redis.url, { bundle: BUNDLE, env: { ...receiver.env, EDGE_GRPC_PORT: '0' } })
    const [first, second, check, limits] = [callerSpan(), callerSpan(), callerSpan(), callerSpan()]
    const client = RawClient.connect(edge.port)
    const question = (uri: string, { traceparent }: { traceparent: string }): Buffer =>
      questionBytes(DECISION, { uri, fields: [['traceparent', traceparent]] })
    client.send(Buffer.concat([question('/first', first), question('/second', second)]))
    expect([(await client.next()).status, (await client.next()).status]).toEqual([200, 200])
    client.socket.destroy()
    await authorization(edge.grpcPort).call('Check', checkRequest({ path: '/check' }), [['traceparent', check.traceparent]])
    const descriptors = [{ entries: [{ key: 'user', value: 'a' }] }]
    await rateLimitService(edge.grpcPort).call('ShouldRateLimit', { domain: 'd', descriptors }, [['traceparent', limits.traceparent]])
    await edge.stop()
    expect(receiver.spans.map(({ parentSpanId, attributes }) => [parentSpanId, attributes['url.path'], attributes['edge.rule']])).toEqual([
      [first.spanId, '/first', 'r'],
      [second.spanId, '/second', 'r'],
      [check.spanId, '/check', 'r'],
      [limits.spanId, undefined, 'users'],
    ])
  })

  test('are errors where Redis is away and nothing may pass', async () => {
    closeTracesPatiently()
    const [redis, receiver] = await Promise.all([runningRedis(), OtlpReceiver.start()])
    const edge = await sharing(redis.url, { bundle: BUNDLE, env: { ...receiver.env, EDGE_REDIS_FAILURE_MODE: 'closed' } })
    await redis.stop()
    await edge.decide({ fields: [['traceparent', callerSpan().traceparent]] })
    await edge.stop()
    expect(receiver.spans).toMatchObject([{ status: { code: 2 }, attributes: { 'error.type': 'store_unavailable' } }])
  })
})
