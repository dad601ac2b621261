import { Agent, request } from 'node:http'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { offer } from '../../support/bundles/bundle-file.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { ask } from '../../support/service/http.ts'
import { metricsOf } from '../../support/service/metrics.ts'
import { thisSuite } from '../../support/service/suite-owner.ts'
import { original } from '../../support/service/wire.ts'
import { until } from '../../support/until.ts'
import { loadOnAll, servingOn, type Workers } from '../../support/workers/workers.ts'

const WORKERS = 3
const VERSIONS = 5
/** So many more, until each worker has some. */
const DECIDERS = 24

/** Every answer names the version that it comes from, by the name of its rule. */
function named(version: number): object {
  return bundle(version, policy(`v${version}`, { rules: [bucketRule('r', [], 1_000_000)] }))
}

// One after the other, on the same process.
describe('on several workers', () => {
  const suite = thisSuite()
  let cli: Workers
  beforeAll(async () => {
    cli = await servingOn(WORKERS, named(1), {}, suite)
  })

  test('a refused bundle changes nothing on any worker', async () => {
    const load = await loadOnAll(cli.port, original('/'), 16)
    for (const bad of ['{"bundle_version":2,', { bundle_version: 2, policies: [{}] }, named(0)]) {
      expect(await offer(cli, bad)).toMatchObject({ event: 'bundle_refused' })
      const target = load.total + 100
      await until(() => load.total > target)
      const ready = await Promise.all(Array.from({ length: 3 * WORKERS }, () => ask(cli.port, 'GET', '/readyz')))
      expect(ready.map(({ status, body }) => [status, JSON.parse(body).policy_version])).toEqual(Array(3 * WORKERS).fill([200, '1']))
    }
    await load.stop()
    expect(load.errors).toEqual([])
    expect(Object.fromEntries(load.allowedBy)).toEqual({ '"v1"': load.total })
    expect((await metricsOf(cli.port)).value('edge_bundle_reloads_total{result="refused"}')).toBe(3)
  })

  test('once anything was answered by a version, or told of it, nothing asked later is answered by an older one', async () => {
    const askers = await Askers.onAllWorkers(cli.port)
    for (let version = 2; version <= VERSIONS; version++) {
      expect(await offer(cli, named(version))).toMatchObject({ event: 'bundle_applied', version: String(version) })
      await until(() => askers.newest === version)
    }
    await askers.stop()

    expect(askers.stale).toEqual([])
    expect([...askers.versions].sort((a, b) => a - b)).toEqual(Array.from({ length: VERSIONS }, (_, i) => i + 1))
  })
})

/** Callers that each ask in turn for decisions, on connections that they keep, and for /readyz on new ones. */
class Askers {
  /** The newest version that anybody has been told of. */
  newest = 0
  readonly versions = new Set<number>()
  readonly stale: string[] = []
  readonly #port: number
  readonly #agent = new Agent({ keepAlive: true })
  readonly #lanes: Promise<void>[] = []
  #isOver = false

  private constructor(port: number) {
    this.#port = port
    onTestFinished(() => this.stop())
  }

  static async onAllWorkers(port: number): Promise<Askers> {
    const askers = new Askers(port)
    const decision = (): Promise<number> => askers.#decidingVersion()
    const readiness = (): Promise<number> => askers.#readyVersion()
    let connections: readonly number[]
    do {
      for (let i = 0; i < DECIDERS; i++) askers.#lanes.push(askers.#run(decision))
      await until(async () => {
        connections = (await metricsOf(port)).connections
        // One is the question's own.
        return connections.reduce((sum, count) => sum + count, 0) > askers.#lanes.length
      })
    } while (Math.min(...connections!) < 2)
    askers.#lanes.push(askers.#run(readiness), askers.#run(readiness))
    return askers
  }

  async stop(): Promise<void> {
    this.#isOver = true
    await Promise.all(this.#lanes)
    this.#agent.destroy()
  }

  async #run(question: () => Promise<number>): Promise<void> {
    while (!this.#isOver) {
      const known = this.newest
      const version = await question()
      if (version < known) this.stale.push(`${question.name}: ${version} after ${known}`)
      this.newest = Math.max(this.newest, version)
      this.versions.add(version)
    }
  }

  #decidingVersion(): Promise<number> {
    const headers = [...original('/').flat(), 'Host', 'edge']
    const options = { host: '127.0.0.1', port: this.#port, method: 'POST', path: '/v1/decision', headers, agent: this.#agent }
    return new Promise((resolve, reject) => {
      const req = request(options, (res) => {
        const [, version] = /^"v(\d+)"/.exec(String(res.headers['ratelimit']))!
        res.resume().on('end', () => resolve(Number(version)))
      })
      req.on('error', reject).end()
    })
  }

  async #readyVersion(): Promise<number> {
    return Number(JSON.parse((await ask(this.#port, 'GET', '/readyz')).body).policy_version)
  }
}
