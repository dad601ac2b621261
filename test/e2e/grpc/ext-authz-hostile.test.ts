import { expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { authorization, check, checkRequest } from '../../support/grpc/ext-authz.ts'
import { call, grpcClient, grpcFields, prefixed } from '../../support/grpc/grpc-client.ts'
import { serializerOf } from '../../support/grpc/js-client.ts'
import { running } from '../../support/service/running.ts'

const PATH = '/envoy.service.auth.v3.Authorization/Check'
const serialize = serializerOf('ext_authz.proto', 'envoy.service.auth.v3.Authorization', 'Check')

test('malformed messages fail with status 13, take nothing, and do no harm to other calls of the connection', async () => {
  const rules = [bucketRule('r', ['header:x-key'], 1)]
  const edge = await running({ bundle: bundle(1, policy('p', { rules })), env: { EDGE_GRPC_PORT: '0' } })
  const session = grpcClient(edge.grpcPort)
  const whole = serialize(checkRequest({ headers: { 'x-key': 'a' } }))
  const malformed = [
    whole.subarray(0, -1),
    Buffer.concat([whole, Buffer.from([0x0a])]),
    Buffer.from([0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f]), // a length of 4 GiB
    Buffer.from([0x0a, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01]), // a number of 71 bits
    Buffer.from([0x08, 0x01]), // attributes as a number
    Buffer.from([0x0b]), // a group
    Buffer.from([0x02, 0x00]), // a field without a number
    nested(300_000),
  ]
  const results = await Promise.all(malformed.map((bytes) => call(session, grpcFields(PATH), prefixed(bytes))))
  expect(results.map(({ status }) => status)).toEqual(malformed.map(() => 13))
  const passed = await call(session, grpcFields(PATH), prefixed(whole))
  expect([passed.status, passed.messages[0]!.slice(0, 2)]).toEqual([0, '\n\0'])
  expect(await edge.metric('edge_questions_total{door="ext_authz_grpc",outcome="refuse"}')).toBe(malformed.length)
})

test('a message without a request, as network filters send it, is denied', async () => {
  const edge = await running({ bundle: bundle(1), env: { EDGE_GRPC_PORT: '0' } })
  const session = grpcClient(edge.grpcPort)
  const { status, messages } = await call(session, grpcFields(PATH), prefixed(''))
  expect([status, messages[0]]).toEqual([0, expect.stringContaining('missing_original_method')])
})

test('a request with thousands of fields is read', async () => {
  const rules = [bucketRule('r', ['header:x-last'], 1, 0.001)]
  const edge = await running({ bundle: bundle(1, policy('p', { rules })), env: { EDGE_GRPC_PORT: '0' } })
  const client = authorization(edge.grpcPort)
  const fields = Array.from({ length: 5000 }, (_, i) => [`x-${i}`, 'x'.repeat(180)] as const)
  expect((await check(client, { fields: [...fields, ['x-last', 'a']] })).status).toBe(200)
  expect((await check(client, { fields: [['x-last', 'a']] })).status).toBe(429)
})

/** Attributes that have attributes that have … and so on, cut short at the end. */
function nested(bytes: number): Buffer {
  return Buffer.alloc(bytes, Buffer.from([0x0a, 0x7f]))
}
