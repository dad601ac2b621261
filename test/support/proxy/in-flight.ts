import { until } from '../until.ts'
import { RawBackend, type RawConnection } from './backend.ts'
import { RawClient } from './proxy.ts'

const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'
const HALF_STREAM = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n'
const SWITCHED = 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n'

/** Requests in each of their states, before a backend that answers none of them by itself. */
export interface InFlight {
  readonly waiting: RawClient
  readonly uploading: RawClient
  readonly streaming: RawClient
  readonly tunnel: RawClient
}

/** One request that waits for its response, one in the middle of its body, one in the middle of its response, and a WebSocket. */
export async function inFlight(port: number, backend: RawBackend): Promise<InFlight> {
  const send = (bytes: string): RawClient => {
    const client = RawClient.connect(port)
    client.send(bytes)
    return client
  }
  const waiting = send('GET /wait HTTP/1.1\r\nHost: a\r\n\r\n')
  const uploading = send('POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\nhalf')
  const streaming = send('GET /stream HTTP/1.1\r\nHost: a\r\n\r\n')
  const tunnel = send('GET /tunnel HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
  await streaming.sees('one')
  await tunnel.sees(' 101 ')
  await until(() => backend.heads === 4 && connectionOf(backend, '/upload').received.endsWith('half'))
  return { waiting, uploading, streaming, tunnel }
}

/** Answers `/`, and of the others what `inFlight` waits for. */
export function inFlightBackend(): Promise<RawBackend> {
  return RawBackend.start(({ socket, received }) => {
    const [, path] = / (\/\w*) /.exec(received)!
    if (path === '/') socket.write(OK)
    else if (path === '/stream') socket.write(HALF_STREAM)
    else if (path === '/tunnel') socket.write(SWITCHED)
  })
}

export function connectionOf(backend: RawBackend, path: string): RawConnection {
  return backend.connections.find(({ received }) => received.includes(` ${path} `))!
}
