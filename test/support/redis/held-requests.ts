import { bundle, concurrencyRule, policy } from '../bundles/bundles.ts'
import { RawBackend } from '../proxy/backend.ts'
import { RawClient } from '../proxy/proxy.ts'
import { ask } from '../service/http.ts'
import { until } from '../until.ts'

const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'

export interface Reached {
  readonly port: number
}

/** At most so many requests in flight, for everybody. */
export function inFlight(max: number, holdSeconds: number, mode = 'enforce'): object {
  return bundle(1, policy('p', { mode, rules: [concurrencyRule('r', [], max, holdSeconds)] }))
}

export function get({ port }: Reached): ReturnType<typeof ask> {
  return ask(port, 'GET', '/')
}

/** A request that the backend has, and does not respond to. */
export async function wait({ port }: Reached, backend: RawBackend): Promise<RawClient> {
  const heads = backend.heads
  const client = RawClient.connect(port)
  client.send('GET /wait HTTP/1.1\r\nHost: a\r\n\r\n')
  await until(() => backend.heads === heads + 1)
  return client
}

export function newBackend(): Promise<RawBackend> {
  return RawBackend.start(({ socket, received }) => {
    const [, path] = [...received.matchAll(/GET (\/\S*) /g)].at(-1)!
    if (path === '/') socket.write(OK)
  })
}
