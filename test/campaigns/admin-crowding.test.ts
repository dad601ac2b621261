import { beforeAll, expect, onTestFinished, test } from 'vitest'
import type { Cli } from '../support/service/cli.ts'
import { answersUnderLoad, openMany, unlimited } from '../support/service/crowds.ts'
import { ask } from '../support/service/http.ts'
import { metricsOf } from '../support/service/metrics.ts'
import { describeWithProc, memoryKib } from '../support/service/process-facts.ts'
import { thisSuite } from '../support/service/suite-owner.ts'
import { until } from '../support/until.ts'

const LIVEZ = 'GET /livez HTTP/1.1\r\nHost: a\r\n\r\n'
const METRICS = 'GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n'
const ENDLESS = 'GET /livez HTTP/1.1\r\nX-A: '

describeWithProc('while the admin port is attacked, decisions go on:', () => {
  const suite = thisSuite()
  let [cli, admin]: [cli: Cli, admin: number] = [] as never
  beforeAll(async () => {
    cli = await unlimited({ EDGE_ADMIN_PORT: '0', EDGE_HEADERS_TIMEOUT_MS: '10000' }, suite)
    admin = Number(/admin\s+http:\/\/127\.0\.0\.1:(\d+)/.exec(cli.stdout)![1])
  })

  test('clients that ask without end, some of whom never read', async () => {
    const before = await memoryKib(cli, 'VmHWM')
    const sockets = await openMany(admin, 100)
    const flood = Buffer.from((METRICS + LIVEZ).repeat(200))
    sockets.forEach((socket, i) => {
      const askOn = (): void => {
        while (socket.writable && socket.write(flood));
      }
      socket.on('drain', askOn)
      if (i % 2 === 0) socket.resume()
      askOn()
    })
    expect(await answersUnderLoad(cli, 1000)).toEqual([200])
    expect((await memoryKib(cli, 'VmHWM')) - before).toBeLessThan(96 * 1024)
    for (const socket of sockets) socket.destroy()
    await untilAnswered()
  })

  test('a thousand connections, whose heads drip in byte by byte (slowloris)', async () => {
    const sockets = await openMany(admin, 1000)
    let dripped = 0
    const drip = setInterval(() => {
      for (const socket of sockets) if (socket.writable) socket.write(ENDLESS[dripped] ?? 'x')
      dripped++
    }, 500)
    onTestFinished(() => clearInterval(drip))
    expect(await answersUnderLoad(cli, 300)).toEqual([200])
    await until(() => sockets.every(({ destroyed }) => destroyed))
    clearInterval(drip)
    await untilAnswered()
    const metrics = await metricsOf(admin)
    expect(metrics.value('edge_connections_refused_total{port="main"}')).toBe(0)
  })

  async function untilAnswered(): Promise<void> {
    await until(async () => (await ask(admin, 'GET', '/livez').catch(() => undefined))?.status === 200)
  }
})
