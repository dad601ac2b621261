import { bundle, concurrencyRule, policy } from '../bundles/bundles.ts'
import { CHAT } from '../llm/llm-proxy.ts'
import { metricsOf } from '../service/metrics.ts'
import { type Owner, thisTest } from '../service/running.ts'
import { until } from '../until.ts'
import { RawBackend, type Script } from './backend.ts'
import { RawClient } from './proxy.ts'

const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'
const SWITCHED = 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n'
const STREAM_HEAD = 'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n'
interface Listening {
  readonly port: number
}

/** So long that nothing ends by itself. */
export const AN_HOUR = 3600

const CHUNK = 'data: {"choices":[{"index":0,"delta":{"content":"word "}}]}\n\n'
const chunked = (text: string): string => `${text.length.toString(16)}\r\n${text}\r\n`
const COMPLETION_BODY = '{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}'
const COMPLETION = `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${COMPLETION_BODY.length}\r\n\r\n${COMPLETION_BODY}`

/** So many requests in flight. */
export function holdsBundle(max: number, holdSeconds = AN_HOUR): object {
  return bundle(1, policy('p', { rules: [concurrencyRule('five', [], max, holdSeconds)] }))
}

export async function openHolds(edge: Listening): Promise<number> {
  return (await metricsOf(edge.port)).value('edge_proxy_open_holds')
}

export function send({ port }: Listening, bytes: string): RawClient {
  const client = RawClient.connect(port)
  client.send(bytes)
  return client
}

/** A request that the backend has, and does not respond to. */
export async function wait(edge: Listening, backend: RawBackend, fields = ''): Promise<RawClient> {
  const heads = backend.heads
  const client = send(edge, `GET /wait HTTP/1.1\r\nHost: a\r\n${fields}\r\n`)
  await until(() => backend.heads === heads + 1)
  return client
}

export async function openTunnel(edge: Listening): Promise<RawClient> {
  const client = send(edge, 'GET /tunnel HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
  await client.sees(' 101 ')
  return client
}

/** Until the backend has lost every request for such a target. That costs less to look at than the metrics, which may follow a moment later. */
export function untilLost(backend: RawBackend, target: '/wait' | '/tunnel'): Promise<void> {
  return until(() => backend.connections.every(({ received, isClosed }) => isClosed || !received.includes(` ${target} `)))
}

/** The target says what it does. */
export function holdsBackend(owner: Owner = thisTest): Promise<RawBackend> {
  const script: Script = ({ socket, received }) => {
    const [, method, target] = [...received.matchAll(/(GET|HEAD|POST) (\/\S*) HTTP\/1\.1\r\n/g)].at(-1)!
    if (target === '/') socket.write(method === 'HEAD' ? OK.slice(0, -2) : OK)
    else if (target === '/500') socket.write('HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n')
    else if (target === '/hang-up') socket.destroy()
    else if (target === '/half') socket.end('HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nhalf')
    else if (target === '/nonsense') socket.end('nonsense\r\n\r\n')
    else if (target === '/stream') socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n')
    else if (target === '/tunnel') socket.write(SWITCHED)
    else if (target === CHAT) socket.write(COMPLETION)
    else if (target === `${CHAT}?stream`) socket.write(`${STREAM_HEAD}${chunked(CHUNK)}${chunked('data: [DONE]\n\n')}0\r\n\r\n`)
    else if (target === `${CHAT}?long`) socket.write(STREAM_HEAD + chunked(CHUNK).repeat(100))
    else if (target === `${CHAT}?open`) socket.write(STREAM_HEAD + chunked(CHUNK))
  }
  return RawBackend.start(script, undefined, owner)
}
