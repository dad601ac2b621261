import { mkdir, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { expect, onTestFailed, type TestContext, test } from 'vitest'
import type { ReadUsageLine } from '../../src/usage-log/usage-reader.ts'
import { Random } from '../support/random/random.ts'
import { runningRedis } from '../support/redis/redis-server.ts'
import { describeWithRedis } from '../support/redis/redis-suite.ts'
import { seed } from '../support/run/property-runs.ts'
import { type Metrics, metricsOf } from '../support/service/metrics.ts'
import { type Environment, finished, scratchDirectory } from '../support/service/running.ts'
import { untilLogged } from '../support/service/until-logged.ts'
import { type SmallDisk, smallDisk } from '../support/state/faulty-disk.ts'
import { until } from '../support/until.ts'
import { type BackendName, type SoakedProxy, soakedProxy } from '../support/usage/soaked-proxy.ts'
import { SoakingClients } from '../support/usage/soaking-clients.ts'
import { expectSumsOf, usageLines } from '../support/usage/usage-proxy.ts'

const CLIENTS = 12
const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const DISK_KB = 8 * 1024

describeWithRedis(
  'the usage log',
  () => {
    test.for<readonly [string, 'exact' | 'leased' | undefined]>([
      ['in memory', undefined],
      ['in Redis', 'exact'],
      ['leased from Redis', 'leased'],
    ])(
      'counters %s: whatever fails, lines and counted losses are what the metrics say, and what backends generated',
      async ([, mode], context) => {
        const chance = seed()
        onTestFailed(() => void process.stderr.write(`\nreplay with EDGE_TEST_SEED=${chance}\n`))
        const redis = mode && (await runningRedis({ hasSteppingClock: true }))
        const env = redis && { EDGE_REDIS_URL: redis.url, EDGE_REDIS_MODE: mode, EDGE_REDIS_TIMEOUT_MS: '60000' }
        const soak = await Soak.begin(context, chance, env, (ms) => redis?.stepClock(ms))
        await soak.play()
        await soak.check()
      },
    )

    test('kill -9 loses at most what was settled within the last second', async () => {
      const directory = join(await scratchDirectory(), 'usage')
      const { edge } = await soakedProxy(directory, {})
      const clients = new SoakingClients(edge.port, new Random(seed()))
      // A process that a busy machine keeps waiting writes later; this one waits as long, more or less.
      const delay = monitorEventLoopDelay({ resolution: 5 })
      delay.enable()
      const playing = clients.play(CLIENTS)
      await until(() => clients.completeAt.size >= 150)
      edge.process.kill('SIGKILL')
      const killedAt = performance.now()
      delay.disable()
      clients.stop()
      await Promise.all([playing, edge.exited])
      const models = new Set((await usageLines(directory)).map(({ model }) => model))
      const missing = [...clients.completeAt].filter(([model, at]) => !models.has(model) && at < killedAt - 1000 - delay.max / 1e6)
      expect(missing).toEqual([])
    })
  },
  'libfaketime',
)

/** One run with everything that may happen to the log, at moments that depend on how many requests were over by then. */
class Soak {
  readonly #proxy: SoakedProxy
  readonly #directory: string
  readonly #disk: SmallDisk
  readonly #clients: SoakingClients
  readonly #alsoStep: (ms: number) => void

  private constructor({ proxy, directory, disk, random, alsoStep }: SoakParts) {
    this.#proxy = proxy
    this.#directory = directory
    this.#disk = disk
    this.#alsoStep = alsoStep
    this.#clients = new SoakingClients(proxy.edge.port, random)
  }

  /** `alsoStep`: what else has a clock that is set together with the service's. */
  static async begin(context: TestContext, chance: number, env: Environment = {}, alsoStep: (ms: number) => void): Promise<Soak> {
    const directory = join(await scratchDirectory(), 'disk')
    await mkdir(directory)
    const disk = smallDisk(directory, context, DISK_KB)
    const proxy = await soakedProxy(directory, env)
    return new Soak({ proxy, directory, disk, random: new Random(chance), alsoStep })
  }

  async play(): Promise<void> {
    const { edge } = this.#proxy
    const playing = this.#clients.play(CLIENTS)
    await this.#more(60)
    for (const ms of [HOUR_MS, -HOUR_MS, DAY_MS, -DAY_MS, this.#untilMidnightMs - 2000]) {
      this.#step(ms)
      await this.#more(40)
    }
    this.#disk.fill()
    await untilLogged(edge, 'usage_not_written')
    // A new file has no room either.
    this.#step(HOUR_MS)
    await this.#more(40)
    await this.#empty()
    await untilLogged(edge, 'usage_written_again')
    await this.#kill(1)
    this.#step(DAY_MS)
    this.#disk.fill()
    await this.#kill(2)
    await this.#empty()
    this.#step(-3 * HOUR_MS)
    // Files of hours that are over are compressed every minute, also that of an hour which then comes again.
    this.#clients.pauseMs = 3000
    await until(async () => (await readdir(this.#directory)).some((name) => name.endsWith('.gz')))
    this.#clients.pauseMs = 0
    this.#step(-DAY_MS)
    await this.#more(60)
    this.#clients.stop()
    await playing
  }

  async check(): Promise<void> {
    const metrics = await this.#quietMetrics()
    const lines = await usageLines(this.#directory)
    expectSumsOf(lines, metrics)
    this.#expectGenerated(lines)
    this.#expectEventful(lines, metrics)
    expect(await this.#proxy.edge.stop()).toBe(0)
    const report = await finished(['usage', '--by', 'rule', '--json', this.#directory])
    const { rows, total } = JSON.parse(report.stdout) as { rows: ReportRow[]; total: ReportRow }
    expect(total.requests).toBe(lines.length)
    for (const { values, charged, cost } of rows) {
      const [policy, rule] = values['rule']!.split('/')
      const labels = `{policy="${policy}",rule="${rule}"}`
      expect(charged + metrics.value(`edge_usage_lost_tokens_total${labels}`)).toBe(metrics.value(`edge_llm_tokens_used_total${labels}`))
      expect(nanos(cost) + nanos(metrics.value(`edge_usage_lost_cost_total${labels}`))).toBe(
        nanos(metrics.value(`edge_cost_spent_total${labels}`)),
      )
    }
  }

  /** What a provider would bill for a response that came to its end is what the line says, whether we counted it or the provider did. */
  #expectGenerated(lines: readonly ReadUsageLine[]): void {
    let compared = 0
    for (const { model, backend, end, status, tokens } of lines) {
      if (end !== 'done' || status !== 200 || tokens === undefined || model === 'any') continue
      const { models } = this.#proxy.fakes[backend as BackendName].usage.toJSON() as { models: Record<string, object> }
      expect({ model, prompt_tokens: tokens.input, completion_tokens: tokens.output }).toEqual({
        model,
        ...models[model as string],
        requests: undefined,
      })
      compared++
    }
    expect(compared).toBeGreaterThan(50)
  }

  /** A run in which nothing happened would prove nothing. */
  #expectEventful(lines: readonly ReadUsageLine[], metrics: Metrics): void {
    const seen = (member: string): unknown[] => [...new Set(lines.map((line) => line[member]))]
    expect(seen('end')).toEqual(expect.arrayContaining(['done', 'truncated', 'client_gone', 'backend_failed']))
    expect(seen('backend')).toEqual(expect.arrayContaining(['a', 'b', 'c', 'tunnel']))
    expect(seen('sent_model')).toEqual(expect.arrayContaining(['small', 'large', 'medium']))
    expect(seen('status')).toEqual(expect.arrayContaining([200, 101]))
    expect(seen('usage')).toEqual(expect.arrayContaining(['unknown', 'unfinished']))
    expect(seen('estimate')).toContain('fair')
    const windows = lines.flatMap(({ rules }) => rules.map((rule) => (rule as { windows?: object[] }).windows?.length ?? 0))
    expect(Math.max(...windows)).toBeGreaterThan(1)
    expect(metrics.value('edge_usage_lines_lost_total{reason="disk_failed"}')).toBeGreaterThan(0)
    expect(metrics.sum('edge_rejects_total', 'policy="poor"')).toBeGreaterThan(0)
  }

  /** Nothing is under way, and every settled request is written or lost. */
  async #quietMetrics(): Promise<Metrics> {
    let metrics = await metricsOf(this.#proxy.edge.port)
    await until(async () => {
      metrics = await metricsOf(this.#proxy.edge.port)
      const accounted = metrics.value('edge_usage_lines_written_total') + metrics.sum('edge_usage_lines_lost_total')
      return metrics.sum('edge_llm_reservations_in_flight') === 0 && accounted === metrics.sum('edge_llm_settlements_total')
    })
    return metrics
  }

  async #more(requests: number): Promise<void> {
    const over = this.#clients.over + requests
    await until(() => this.#clients.over >= over)
  }

  #step(ms: number): void {
    this.#proxy.clock.step(ms)
    this.#alsoStep(ms)
  }

  async #kill(times: number): Promise<void> {
    this.#proxy.edge.process.kill('SIGUSR2')
    await untilLogged(this.#proxy.edge, 'worker_replaced', times)
    await this.#more(40)
  }

  /** There is room on the disk again. */
  async #empty(): Promise<void> {
    for (const name of await readdir(this.#directory)) if (name.startsWith('filler-')) await rm(join(this.#directory, name))
  }

  get #untilMidnightMs(): number {
    return DAY_MS - (Date.now() % DAY_MS)
  }
}

interface SoakParts {
  readonly proxy: SoakedProxy
  readonly directory: string
  readonly disk: SmallDisk
  readonly random: Random
  readonly alsoStep: (ms: number) => void
}

interface ReportRow {
  readonly values: Readonly<Record<string, string>>
  readonly requests: number
  readonly charged: number
  readonly cost: string
}

function nanos(units: number | string): number {
  return Math.round(Number(units) * 1e9)
}
