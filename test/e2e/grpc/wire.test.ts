import { expect, test } from 'vitest'
import { bundle } from '../../support/bundles/bundles.ts'
import { call, grpcClient, grpcFields, prefixed } from '../../support/grpc/grpc-client.ts'
import { RawHttp2 } from '../../support/grpc/raw-http2.ts'
import { running } from '../../support/service/running.ts'

const CHECK = '/grpc.health.v1.Health/Check'

test('the port serves calls, and whoever speaks HTTP/1.1 gets 400', async () => {
  const edge = await running({ bundle: bundle(1), env: { EDGE_GRPC_PORT: '0' } })
  const port = edge.grpcPort
  expect(await call(grpcClient(port), grpcFields(CHECK), prefixed(''))).toMatchObject({ status: 0, messages: ['\b\x01'] })
  const other = new RawHttp2(port)
  other.send(Buffer.from('GET / HTTP/1.1\r\nHost: a\r\n\r\n'))
  await other.closed()
  expect(other.text.startsWith('HTTP/1.1 400')).toBe(true)
})
