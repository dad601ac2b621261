import { expect, test } from 'vitest'
import { offer } from '../../support/bundles/bundle-file.ts'
import { bundle } from '../../support/bundles/bundles.ts'
import { connectionOf, inFlight, inFlightBackend } from '../../support/proxy/in-flight.ts'
import { proxying } from '../../support/proxy/proxy.ts'
import { until } from '../../support/until.ts'

/** What happens to the service in the middle of requests in each of their states. Shutdowns have a file of their own. */

const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'

test('a new bundle changes nothing for requests in flight', async () => {
  const backend = await inFlightBackend()
  const edge = await proxying(backend)
  const { waiting, uploading, streaming, tunnel } = await inFlight(edge.port, backend)
  expect(await offer(edge, bundle(2))).toMatchObject({ event: 'bundle_applied' })

  connectionOf(backend, '/wait').socket.write(OK)
  expect((await waiting.next()).body).toBe('ok')
  uploading.send('rest')
  await until(() => connectionOf(backend, '/upload').received.endsWith('halfrest'))
  connectionOf(backend, '/upload').socket.write(OK)
  expect((await uploading.next()).body).toBe('ok')
  connectionOf(backend, '/stream').socket.write('3\r\ntwo\r\n0\r\n\r\n')
  await streaming.sees('3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n')
  tunnel.send('ping')
  await until(() => connectionOf(backend, '/tunnel').received.endsWith('ping'))
  connectionOf(backend, '/tunnel').socket.write('pong')
  await tunnel.sees('pong')
})
