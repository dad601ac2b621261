import { type RawAnswer, RawClient } from '../proxy/proxy.ts'
import { metricsOf } from '../service/metrics.ts'
import { until } from '../until.ts'

const BATCH = 8

/** Kept connections, at least one of them with each worker. */
export class Crowd {
  readonly clients: readonly RawClient[]

  private constructor(clients: readonly RawClient[]) {
    this.clients = clients
  }

  /** For as long as the test runs. `metricsPort` where it is another one. */
  static async gather(port: number, metricsPort = port): Promise<Crowd> {
    const clients: RawClient[] = []
    let connections: readonly number[]
    do {
      for (let i = 0; i < BATCH; i++) clients.push(RawClient.connect(port))
      await until(async () => {
        connections = (await metricsOf(metricsPort)).connections
        // One is the question's own.
        return connections.reduce((sum, count) => sum + count, 0) === clients.length + 1
      })
    } while (Math.min(...connections!) < 2)
    return new Crowd(clients)
  }

  get size(): number {
    return this.clients.length
  }

  /** The same question on each connection. */
  ask(bytes: string | Buffer): Promise<RawAnswer[]> {
    return Promise.all(
      this.clients.map((client) => {
        client.send(bytes)
        return client.next()
      }),
    )
  }
}
