import { expect, test } from 'vitest'
import { RawBackend } from '../../support/proxy/backend.ts'
import { proxying, RawClient } from '../../support/proxy/proxy.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { until } from '../../support/until.ts'

const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'
const get = (path: string): string => `GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`

// One counts bytes, the other requests. How much of a pipeline is read in one piece, and so counted, is up to the system.
test.each([
  ['own', 32],
  ['node', 8],
])('what waits on all connections together is bounded (%s): long pipelines are cut then, short ones are not', async (wire, clients) => {
  const backend = await RawBackend.start(() => {})
  const edge = await proxying(backend, { env: { EDGE_PROXY_WIRE: wire } })
  const short = RawClient.connect(edge.port)
  short.send(get('/short').repeat(10))
  await until(() => backend.heads === 1)
  const long: RawClient[] = []
  const pipeline = Buffer.from(get('/').repeat(2400))
  const isBounded = (): boolean => long.some(({ isClosed }) => isClosed)
  while (!isBounded()) {
    for (let i = 0; i < clients; i++) {
      const client = RawClient.connect(edge.port)
      client.send(pipeline)
      long.push(client)
    }
    await until(() => isBounded() || backend.heads === 1 + long.length)
  }
  expect((await untilLogged(edge, 'refused'))[0]).toMatchObject({ reason: 'bad_request', detail: 'too many pipelined requests' })
  backend.connections[0]!.socket.write(OK)
  expect((await short.next()).body).toBe('ok')
})
