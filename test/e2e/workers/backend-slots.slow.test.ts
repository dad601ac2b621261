import { Agent, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { bundle } from '../../support/bundles/bundles.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { proxyEnv } from '../../support/proxy/proxy.ts'
import { metricsOf } from '../../support/service/metrics.ts'
import { until } from '../../support/until.ts'
import { servingOn } from '../../support/workers/workers.ts'

const WORKERS = 2
const CLIENTS = 10
/** Some turns of each worker. */
const ANSWERS = 1000
/** Of what the luckiest client gets, the unluckiest gets so much: workers take turns of the same length, whatever number of clients each has. */
const LEAST_SHARE = 1 / 20

test('a worker whose clients never stop asking leaves connections to the backend to the clients of another', async () => {
  const backend = await HttpBackend.start((_req, res) => void sleep(5).then(() => res.end('ok')))
  const env = { ...proxyEnv(backend.url), EDGE_BACKEND_MAX_CONNECTIONS: '1', EDGE_BACKEND_QUEUE_MS: '4000' }
  const cli = await servingOn(WORKERS, bundle(1), env)
  const clients = Array.from({ length: CLIENTS }, () => new TirelessClient(cli.port))
  onTestFinished(async () => {
    for (const client of clients) await client.stop()
  })
  // Some on each, beside the connection on which this is asked.
  await until(async () => Math.min(...(await metricsOf(cli.port)).connections) > 1)
  const earlier = clients.map(({ served }) => served)
  const since = (): number[] => clients.map(({ served }, index) => served - earlier[index]!)
  await until(() => since().reduce((sum, served) => sum + served) >= ANSWERS)
  expect(Math.min(...since()) / Math.max(...since()), since().join()).toBeGreaterThan(LEAST_SHARE)
})

/** Asks on one connection again and again, whatever the answer is. */
class TirelessClient {
  /** Answers of the backend. */
  served = 0
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1 })
  readonly #port: number
  readonly #over: Promise<void>
  #isOver = false

  constructor(port: number) {
    this.#port = port
    this.#over = this.#run()
  }

  async stop(): Promise<void> {
    this.#isOver = true
    await this.#over
  }

  async #run(): Promise<void> {
    while (!this.#isOver) if ((await this.#ask()) === 200) this.served++
    this.#agent.destroy()
  }

  #ask(): Promise<number> {
    return new Promise((resolve, reject) => {
      const req = request({ host: '127.0.0.1', port: this.#port, agent: this.#agent }, (res) => {
        res.resume().on('end', () => resolve(res.statusCode!))
      })
      req.on('error', reject).end()
    })
  }
}
