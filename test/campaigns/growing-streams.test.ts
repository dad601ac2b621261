import { expect, onTestFailed, test } from 'vitest'
import { budgetRule, bundle, llmRule, policy } from '../support/bundles/bundles.ts'
import { type Fleet, type Instance, runningFleet } from '../support/fleet/fleet.ts'
import { CHAT, HELLO, HELLO_TOKENS, proxyEnv } from '../support/llm/llm-proxy.ts'
import { MAX_BATCH_TOKENS, type SteppedStream, SteppedStreams } from '../support/llm/stepped-streams.ts'
import { Random } from '../support/random/random.ts'
import { awayFromMidnight } from '../support/redis/away-from-midnight.ts'
import { type RedisServer, runningRedis } from '../support/redis/redis-server.ts'
import { describeWithRedis } from '../support/redis/redis-suite.ts'
import { hasRedis } from '../support/redis/sharing-edge.ts'
import { seed } from '../support/run/property-runs.ts'
import { ask } from '../support/service/http.ts'
import { metricsOf } from '../support/service/metrics.ts'
import { until, untilStill } from '../support/until.ts'

const INSTANCES = 3
const WORKERS = 2
const STEP = 100
const CLOSING = { tokens: 'graceful_close', money: 'error_chunk' } as const
/** Units of money for a token, of the prompt or of the completion. */
const PRICE = 0.001
/** Sums of fractions, in tokens. */
const ROUNDING = 1e-3
const KILLABLE = new URL('../support/workers/killable-workers.mjs', import.meta.url)

interface Case {
  readonly unit: keyof typeof CLOSING
  readonly mode: 'closed' | 'local'
  readonly data: 'kept' | 'lost'
  readonly streams: number
  /** How many times the budget may be used. */
  readonly budgets: number
}

describeWithRedis('streams in three instances on one budget, while Redis stops and dies and workers are killed', () => {
  test.each<Case>([
    { unit: 'tokens', mode: 'closed', data: 'kept', streams: 500, budgets: 1 },
    { unit: 'money', mode: 'closed', data: 'kept', streams: 500, budgets: 1 },
    // An instance never grants more than the budget by its own count, whatever Redis has forgotten.
    { unit: 'tokens', mode: 'closed', data: 'lost', streams: 60, budgets: INSTANCES },
    { unit: 'tokens', mode: 'local', data: 'kept', streams: 60, budgets: INSTANCES },
  ])('$streams streams, $unit, $mode, data $data: at most $budgets × the budget and a read for each stream', async (played) => {
    await awayFromMidnight()
    const chance = seed()
    onTestFailed(() => void process.stderr.write(`\nreplay with EDGE_TEST_SEED=${chance}\n`))
    const campaign = await newCampaign(played, new Random(chance))
    await campaign.play()
    await campaign.check()
  })
})

async function newCampaign(played: Case, random: Random): Promise<Campaign> {
  // All that Redis has said is on its disk.
  const redis = await runningRedis({ args: ['--appendonly', 'yes', '--appendfsync', 'always'] })
  const streams = new SteppedStreams(random)
  const backend = await streams.listen()
  // All streams can begin, and grow once or twice on average.
  const budget = played.streams * (HELLO_TOKENS + 2.5 * STEP)
  const fleet = await runningFleet({
    size: INSTANCES,
    bundle: bundleOf(played, budget),
    env: {
      ...proxyEnv(backend),
      EDGE_WORKERS: String(WORKERS),
      EDGE_REDIS_URL: redis.url,
      EDGE_REDIS_FAILURE_MODE: played.mode,
      // A Redis that is stopped for a while is waited for; one that dies ends its connections.
      EDGE_REDIS_TIMEOUT_MS: '60000',
      NODE_OPTIONS: `--import ${KILLABLE.href}`,
    },
  })
  return new Campaign(played, budget, redis, fleet, streams, random)
}

function bundleOf({ unit }: Case, budget: number): object {
  const common = { reserve: { first: STEP, step: STEP }, streaming: { on_limit_exceeded: CLOSING[unit] } }
  const rule =
    unit === 'tokens'
      ? llmRule('budget', [], { tokens_per_day: budget, ...common })
      : budgetRule('budget', [], { budget: budget * PRICE, prices: 'main', ...common })
  return { ...bundle(1, policy('llm', { rules: [rule] })), prices: { main: { '*': { input: 1e6 * PRICE, output: 1e6 * PRICE } } } }
}

class Campaign {
  readonly #case: Case
  readonly #budget: number
  readonly #redis: RedisServer
  readonly #instances: readonly Instance[]
  readonly #streams: SteppedStreams
  readonly #random: Random
  readonly #killed: Instance[] = []
  #isOver = false

  constructor(played: Case, budget: number, redis: RedisServer, fleet: Fleet, streams: SteppedStreams, random: Random) {
    this.#case = played
    this.#budget = budget
    this.#redis = redis
    this.#instances = fleet.instances
    this.#streams = streams
    this.#random = random
  }

  /** Each client asks again until the budget is used up; meanwhile things happen, at moments that depend on what has passed by then. */
  async play(): Promise<void> {
    const { streams, data } = this.#case
    const clients = Promise.all(Array.from({ length: streams }, (_, i) => this.#playClient(this.#instances[i % INSTANCES]!)))
    void clients.finally(() => {
      this.#isOver = true
    })
    const [first, second] = this.#random.below(2) === 0 ? this.#instances : [...this.#instances].reverse()
    await this.#more(0.1)
    // All streams use up what they have, and wait for more.
    this.#redis.pause()
    await untilStill(() => this.#streams.seenTokens)
    this.#kill(first!)
    this.#redis.resume()
    await this.#more(0.1)
    await this.#redis.stop()
    if (data === 'lost') await this.#redis.forget()
    await this.#redis.start()
    await this.#more(0.1)
    this.#kill(second!)
    await clients
  }

  async check(): Promise<void> {
    const { unit, budgets } = this.#case
    const { admitted } = this.#streams
    const killed = this.#killed.map(({ port }) => port)
    const unbroken = admitted.filter(({ outcome }) => outcome === 'whole')
    for (const stream of admitted.filter((each) => !unbroken.includes(each))) expect(killed).toContain(stream.port)
    for (const stream of unbroken) expect(stream.endsInOrder(CLOSING[unit]), stream.text.slice(-500)).toBe(true)
    const [seen, reads] = [tokensSeenBy(admitted), admitted.reduce((sum, { largestBatch }) => sum + largestBatch, 0)]
    expect(seen).toBeLessThanOrEqual(budgets * this.#budget + reads)

    for (const instance of this.#instances) await this.#checkInstance(instance)
    const metrics = await Promise.all(this.#instances.map(({ port }) => metricsOf(port)))
    const sum = (name: string): number => metrics.reduce((total, each) => total + each.sum(name), 0)
    const charged = unit === 'tokens' ? sum('edge_llm_tokens_used_total') : sum('edge_cost_spent_total') / PRICE
    // Who has seen it pays for it, and at most for the batch at which the stream was cut.
    expect(charged).toBeGreaterThanOrEqual(tokensSeenBy(unbroken) - ROUNDING)
    expect(charged).toBeLessThanOrEqual(seen + reads + ROUNDING)
    if (budgets > 1) return
    // A settlement whose outcome is unknown leaves the reservation spent, and not what its stream used beyond that.
    const doubts = sum('edge_redis_doubts_total{what="settlement"}')
    expect(await this.#spent()).toBeGreaterThanOrEqual(Math.min(this.#budget, charged - doubts * MAX_BATCH_TOKENS) - 1)
  }

  async #playClient({ port }: Instance): Promise<void> {
    for (;;) {
      const { status, outcome } = await this.#streams.open(port).closed()
      if (status === 429) return
      // A connection to a worker that was just killed is broken, too.
      if (status === 503 || outcome === 'broken') await until(() => hasRedis({ port }).catch(() => false))
    }
  }

  /** Waits until this share of the budget has passed from now on. */
  async #more(share: number): Promise<void> {
    const seenTokens = this.#streams.seenTokens + share * this.#budget
    await until(() => this.#isOver || this.#streams.seenTokens >= seenTokens)
  }

  #kill(instance: Instance): void {
    this.#killed.push(instance)
    instance.cli.process.kill('SIGUSR2')
  }

  /** It lives, nothing is in flight, and nothing unexpected was logged. */
  async #checkInstance(instance: Instance): Promise<void> {
    expect(instance.cli.process.exitCode).toBeNull()
    const died = this.#killed.filter((each) => each === instance).length
    await until(() => instance.logged('worker_replaced').length === died)
    const errors = instance.log.filter(({ level }) => level === 'error' || level === 'fatal').map(({ event }) => event)
    expect([...new Set(errors)].filter((event) => event !== 'worker_died' && event !== 'redis_unavailable')).toEqual([])
    expect(instance.logged('worker_died').length).toBe(died)
    await until(async () => {
      const metrics = await metricsOf(instance.port)
      return metrics.value('edge_llm_open_streams') === 0 && metrics.value('edge_proxy_open_requests') === 0
    })
    const reject = JSON.parse((await this.#reject(instance)).body)
    expect(reject.error.message).not.toContain('in flight')
  }

  /** What is spent of the budget, in tokens, as Redis has it. */
  async #spent(): Promise<number> {
    const { body } = await this.#reject(this.#instances[0]!)
    const left = Number(/ and ([\d.]+) (?:are available|is left)/.exec(JSON.parse(body).error.message)![1])
    return this.#budget - left / (this.#case.unit === 'money' ? PRICE : 1)
  }

  #reject({ port }: Instance): ReturnType<typeof ask> {
    return ask(port, 'POST', CHAT, [], JSON.stringify({ model: 'm', messages: HELLO, max_tokens: 1e9 }))
  }
}

/** What a settlement would charge for what the clients have seen. */
function tokensSeenBy(streams: readonly SteppedStream[]): number {
  return streams.reduce((sum, { seenTokens }) => sum + HELLO_TOKENS + seenTokens, 0)
}
