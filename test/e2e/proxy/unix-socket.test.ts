import { expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { HttpBackend, RawBackend } from '../../support/proxy/backend.ts'
import { proxying } from '../../support/proxy/proxy.ts'
import { PROXY_WIRES } from '../../support/run/proxy-wire.ts'
import { ask, exchange, type Fields } from '../../support/service/http.ts'
import { socketPath } from '../../support/service/unix-socket.ts'
import { untilLogged } from '../../support/service/until-logged.ts'

const FORWARDED: Fields = [['X-Forwarded-For', '198.51.100.7']]

test.for([
  ['loopback', '198.51.100.7, 127.0.0.1'],
  ['192.0.2.0/24', '127.0.0.1'],
] as const)(
  'a peer on the unix socket of a proxy counts as one on loopback: trusted with EDGE_TRUSTED_PROXIES=%s?',
  async ([trusted, sent]) => {
    const { backend, path } = await start({ EDGE_TRUSTED_PROXIES: trusted })
    expect((await ask(path, 'GET', '/', FORWARDED)).status).toBe(200)
    expect(backend.seen[0]!.headers['x-forwarded-for']).toBe(sent)
  },
)

test('clients behind it are told apart by X-Forwarded-For, and those without it are one', async () => {
  const { path } = await start({})
  const status = async (fields: Fields): Promise<number> => (await ask(path, 'GET', '/', fields)).status
  expect([await status(FORWARDED), await status(FORWARDED)]).toEqual([200, 429])
  expect([await status([]), await status([])]).toEqual([200, 429])
})

test('port and socket share the backend, and both end', async () => {
  const { backend, edge, path } = await start({ EDGE_PORT: '0' })
  expect((await edge.get('/port', FORWARDED)).status).toBe(200)
  expect((await ask(path, 'GET', '/socket')).status).toBe(200)
  expect(backend.seen.map(({ url }) => url)).toEqual(['/port', '/socket'])
  expect(backend.connections).toBe(1)
  await edge.stop()
  await expect(ask(path, 'GET', '/')).rejects.toMatchObject({ code: 'ENOENT' })
})

test.for(PROXY_WIRES)(
  'half a response is broken off there as well, and nothing fails but the backend (EDGE_PROXY_WIRE=%s)',
  async (wire) => {
    const backend = await RawBackend.start(({ socket }) => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf'))
    const path = await socketPath()
    const edge = await proxying(backend, { env: { EDGE_PORT: 'off', EDGE_SOCKET: path, EDGE_PROXY_WIRE: wire } })
    expect(await exchange(path, 'GET / HTTP/1.1\r\nHost: a\r\n\r\n')).toMatch(/\r\nContent-Length: 8\r\n.*\r\n\r\nhalf$/s)
    expect(await untilLogged(edge, 'backend_failed')).toHaveLength(1)
    expect(edge.logged('internal_error')).toEqual([])
    backend.script = ({ socket }) => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwhole')
    expect((await ask(path, 'GET', '/')).status).toBe(200)
  },
)

async function start(env: Readonly<Record<string, string>>) {
  const backend = await HttpBackend.start()
  const path = await socketPath()
  const rules = [bucketRule('r', ['ip:address'], 1, 0.001)]
  const edge = await proxying(backend, { bundle: bundle(1, policy('p', { rules })), env: { EDGE_PORT: 'off', EDGE_SOCKET: path, ...env } })
  return { backend, edge, path }
}
