import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { RawClient, statusesIn } from '../../../test/support/proxy/proxy.ts'
import { ask } from '../../../test/support/service/http.ts'
import { until } from '../../../test/support/until.ts'
import { RequestTurns } from './request-turns.ts'

const GET = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'
/** On all connections. */
const MAX_WAITING = 200
/** On one: all of them come in one read. */
const PIPELINED = 40

describe('pipelined requests', () => {
  test('begin one at a time, each when the response before it is sent', async () => {
    const { port, open } = await serving()
    const client = RawClient.connect(port)
    client.send(GET.repeat(40))
    for (let done = 0; done < 40; done++) {
      await until(() => open.length === done + 1)
      // Others are served meanwhile, and what they do begins none of these.
      if (done % 20 === 0) expect((await ask(port, 'GET', '/other')).status).toBe(200)
      expect(open).toHaveLength(done + 1)
      open[done]!.end()
    }
    await until(() => statusesIn(client.received).length === 40)
    client.send(GET)
    await until(() => open.length === 41)
    open[40]!.end()
    await until(() => statusesIn(client.received).length === 41)
  })

  test('of a connection that ends are forgotten, and take no room from others', async () => {
    const { port, open, answerAll } = await serving()
    for (let round = 0; round < 8; round++) {
      const client = RawClient.connect(port)
      client.send(GET.repeat(PIPELINED))
      await until(() => open.length === round + 1)
      client.socket.destroy()
      // A connection that is not read learns of that when it writes.
      await until(() => open[round]!.destroyed || !open[round]!.write('x'))
      await until(() => open[round]!.destroyed)
    }
    const last = RawClient.connect(port)
    last.send(GET.repeat(PIPELINED))
    await until(() => open.length === 9)
    answerAll()
    await until(() => statusesIn(last.received).length === PIPELINED)
  })

  test('behind a response that is none of theirs are forgotten, too', async () => {
    const { port, open, answerAll } = await serving()
    for (let round = 0; round < 7; round++) {
      const client = RawClient.connect(port)
      client.send(`${GET.replace('/', '/before')}${GET.repeat(PIPELINED)}`)
      await until(() => open.length === 2 * round + 2)
      client.socket.destroy()
      const before = open[2 * round]!
      await until(() => before.destroyed || !before.write('x'))
      await until(() => before.destroyed)
    }
    const last = RawClient.connect(port)
    last.send(GET.repeat(PIPELINED))
    await until(() => open.length === 15)
    answerAll()
    await until(() => statusesIn(last.received).length === PIPELINED)
  })

  test('beyond what all connections may have waiting are cut with their connection; those that wait are served in time', async () => {
    const { port, open, answerAll } = await serving()
    const clients = Array.from({ length: 10 }, () => RawClient.connect(port))
    for (const client of clients) client.send(GET.repeat(PIPELINED))
    await until(() => open.length > 0 && clients.some(({ isClosed }) => isClosed))
    const modest = RawClient.connect(port)
    modest.send(GET.repeat(5))
    await until(() => open.length > clients.filter(({ isClosed }) => !isClosed).length)
    answerAll()
    await until(() => statusesIn(modest.received).length === 5)
    await until(() => clients.every(({ received, isClosed }) => isClosed || statusesIn(received).length === PIPELINED))
    expect(clients.filter(({ isClosed }) => !isClosed).length).toBeGreaterThan(0)
  })

  test('behind one that is the last on its connection never begin', async () => {
    const { port, open } = await serving()
    const client = RawClient.connect(port)
    client.send(GET.repeat(3))
    await until(() => open.length === 1)
    open[0]!.shouldKeepAlive = false
    open[0]!.end()
    expect(statusesIn(await client.closed())).toEqual([200])
    expect(open).toHaveLength(1)
  })
})

interface Served {
  readonly port: number
  /** Responses to `/`, and to `/before`, which knows no turns. The test ends them. */
  readonly open: ServerResponse[]
  /** Ends those, and all that begin later at once. */
  readonly answerAll: () => void
}

async function serving(): Promise<Served> {
  const turns = new RequestTurns(MAX_WAITING)
  const open: ServerResponse[] = []
  let isAnswering = false
  const server = createServer((req: IncomingMessage, res: ServerResponse) => {
    if (req.url === '/before') return void open.push(res)
    turns.take(req, res, () => void (req.url === '/' && !isAnswering ? open.push(res) : res.end()))
  })
  const answerAll = (): void => {
    isAnswering = true
    for (const res of open) res.end()
  }
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return { port: (server.address() as AddressInfo).port, open, answerAll }
}
