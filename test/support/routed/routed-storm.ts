import { expect } from 'vitest'
import { Random } from '../random/random.ts'
import type { Attempt, Fate, FateOf } from './faulty-relay.ts'
import { priceOf, type RoutedWorld, routedWorld } from './routed-world.ts'
import type { Asked, Client, Seen } from './sdk-clients.ts'

/** Requests under way at a time. */
const CROWD = 16
/** No prompt is longer; each request's has another length, which its answer repeats. */
const LEAST_PROMPT_TOKENS = 8
const MOST_COMPLETION_TOKENS = 40
/** Sums of fractions of a hundredth, in a counter of the day. */
const DIGITS = 4
const RETRY = { on: ['connect', 'timeout', 429, '5xx'], attempts: 2 }
/** What backends answer of that. */
const RETRIED = [429, 500, 503]
/** The model `any` is sent as what the chosen backend has for it. */
const ROUTES = [
  {
    match: { 'llm:model': 'any' },
    backends: [
      { name: 'a', model: 'small' },
      { name: 'b', model: 'large' },
    ],
    fallback: [{ name: 'c', model: 'medium' }],
  },
  { backends: [{ name: 'a', weight: 2 }, { name: 'b' }], fallback: [{ name: 'c' }] },
].map((route) => ({ ...route, retry: RETRY }))
const DEAREST = 'large'

interface Played {
  readonly asked: Asked
  readonly seen: Seen
}

/** Requests of real clients to three backends that are stopped, killed, reset, late and overloaded meanwhile. */
export class RoutedStorm {
  readonly #world: RoutedWorld
  readonly #client: Client
  readonly #requests: number
  readonly #random: Random
  readonly #weather: Weather
  readonly #played: Played[] = []
  #begun = 0

  private constructor(world: RoutedWorld, client: Client, requests: number, random: Random, weather: Weather) {
    this.#world = world
    this.#client = client
    this.#requests = requests
    this.#random = random
    this.#weather = weather
  }

  static async begin(clientOf: (port: number) => Client, requests: number, seed: number): Promise<RoutedStorm> {
    const weather = new Weather(seed)
    const timeout = { headers_timeout_seconds: 0.8 }
    const world = await routedWorld({
      routes: ROUTES,
      fateOf: weather.fateOf,
      // The first two have keys of their own, so a refusal lets their model cool; the third is asked with the client's.
      backends: {
        a: { ...timeout, headers: { authorization: 'Bearer {A}', 'x-api-key': '{A}' } },
        b: { ...timeout, headers: { authorization: 'Bearer {B}', 'x-api-key': '{B}' } },
        c: timeout,
      },
      flags: ['--tokens', String(MOST_COMPLETION_TOKENS), '--tokens-per-event', '3'],
      env: { EDGE_WORKERS: '2', EDGE_SECRET_A: 'sk-of-a', EDGE_SECRET_B: 'sk-of-b', EDGE_BACKEND_IDLE_TIMEOUT_MS: '2000' },
    })
    return new RoutedStorm(world, clientOf(world.port), requests, new Random(seed), weather)
  }

  /** Things happen after shares of all requests, so the same share of them meets each, however fast the machine is. */
  async play(): Promise<void> {
    const [a, b, c] = this.#world.fakes
    const [relayA, , relayC] = this.#world.relays
    this.#weather.isFair = false
    await this.#until(0.15)
    b!.stop()
    await this.#until(0.3)
    b!.resume()
    this.#weather.refuses = ['a', 'b']
    await this.#until(0.45)
    this.#weather.refuses = []
    relayC!.refuse()
    await c!.kill()
    await this.#until(0.6)
    await c!.start()
    await relayC!.accept()
    await this.#until(0.7)
    // Without its relay, the connections of a process that is killed end by themselves.
    await a!.kill()
    b!.stop()
    await this.#until(0.85)
    await a!.start()
    relayA!.refuse()
    b!.resume()
    await relayA!.accept()
    await this.#until(1)
  }

  /** When all is well again, what clients are charged is what the backends serve. */
  async playCalm(requests: number): Promise<void> {
    // Processes that begin anew have nothing left to do for requests that were given up.
    for (const fake of this.#world.fakes) {
      await fake.kill()
      await fake.start()
    }
    this.#weather.isFair = true
    const first = this.#played.length
    await Promise.all(Array.from({ length: requests }, () => this.#playOne()))
    await this.#world.untilQuiet()
    let [charged, attempts] = [0, 0]
    for (const { asked } of this.#played.slice(first)) {
      charged += (await this.#world.charged(asked.marker)).tokens
      attempts += this.#world.attemptsOf(asked.marker).length
    }
    const usages = await Promise.all(this.#world.fakes.map((fake) => fake.usage()))
    const served = usages.reduce((sum, { prompt_tokens, completion_tokens }) => sum + prompt_tokens + completion_tokens, 0)
    expect(charged).toBeLessThanOrEqual(served)
    // On a machine that is too busy for the timeout, an answer may come too late, and another backend is asked.
    if (attempts === requests) expect(charged).toBe(served)
  }

  /** Every request was decided, reserved, charged and logged once, and got its own answer or none. */
  async check(): Promise<void> {
    await this.#world.untilQuiet()
    const sum = { reserved: 0, used: 0, moneyReserved: 0, money: 0, late: 0 }
    for (const { asked, seen } of this.#played) {
      const attempts = this.#world.attemptsOf(asked.marker)
      expectOneRequest(asked, attempts)
      sum.late += attempts.slice(0, -1).filter(({ status }) => status !== undefined && !RETRIED.includes(status)).length
      const charged = await this.#world.charged(asked.marker)
      expectRightCharge(asked, seen, attempts, charged)
      const promptTokens = promptTokensOf(asked)
      sum.reserved += promptTokens + asked.maxTokens
      sum.moneyReserved += priceOf(asked.model === 'any' ? DEAREST : asked.model, promptTokens, asked.maxTokens)
      sum.used += charged.tokens
      sum.money += charged.money
    }
    const count = this.#played.length
    const metrics = await this.#world.metrics()
    expect(metrics.sum('edge_decisions_total')).toBe(count)
    // On a busy machine an answer may come too late; then another backend has been asked already. No other answer is followed by an attempt.
    expect(sum.late).toBeLessThanOrEqual(metrics.sum('edge_route_attempts_total', 'outcome="timeout"'))
    expect(metrics.sum('edge_llm_settlements_total')).toBe(count)
    expect(metrics.sum('edge_llm_tokens_reserved_total')).toBe(sum.reserved)
    expect(metrics.sum('edge_llm_tokens_used_total')).toBe(sum.used)
    expect(metrics.sum('edge_cost_reserved_total')).toBeCloseTo(sum.moneyReserved, DIGITS)
    expect(metrics.sum('edge_cost_spent_total')).toBeCloseTo(sum.money, DIGITS)
    expect(await this.#world.logLines(count)).toEqual(new Map(this.#played.map(({ asked }) => [asked.marker, 1])))
    this.#expectEventful()
    await this.#world.expectNoPlaceKept()
    this.#world.expectWell()
  }

  /** A storm in which nothing happened would prove nothing. */
  #expectEventful(): void {
    const ends = this.#played.map(({ seen }) => seen.end)
    for (const end of ['whole', 'broken']) expect(ends).toContain(end)
    const attempts = this.#played.map(({ asked }) => this.#world.attemptsOf(asked.marker).length)
    expect(Math.max(...attempts)).toBeGreaterThan(1)
  }

  async #until(share: number): Promise<void> {
    const end = Math.round(share * this.#requests)
    const one = async (): Promise<void> => {
      while (this.#begun < end) await this.#playOne()
    }
    await Promise.all(Array.from({ length: CROWD }, one))
  }

  async #playOne(): Promise<void> {
    const asked = this.#nextRequest(this.#begun++)
    this.#played.push({ asked, seen: await this.#client(asked) })
  }

  #nextRequest(number: number): Asked {
    const random = this.#random
    const marker = `r${number}`
    const isStream = random.below(2) === 0
    return {
      marker,
      sdk: random.oneOf(['openai', 'anthropic']),
      isStream,
      // A model that nobody else asks for comes back in the answer.
      model: random.oneOf(['any', 'any', 'small', 'large', `echo-${marker}`, `echo-${marker}`]),
      prompt: `${marker} `.padEnd(4 * (LEAST_PROMPT_TOKENS + number), 'x'),
      maxTokens: 1 + random.below(MOST_COMPLETION_TOKENS),
      ...(isStream && !this.#weather.isFair && random.below(6) === 0 && { leavesAfter: 1 + random.below(3) }),
    }
  }
}

/** What happens to requests on their way. The same seed does the same to the same request at the same backend. */
class Weather {
  isFair = true
  /** Backends that answer everything with 429. */
  refuses: readonly string[] = []
  readonly #seed: number

  constructor(seed: number) {
    this.#seed = seed
  }

  readonly fateOf: FateOf = ({ backend, marker }): Fate => {
    if (this.isFair) return { do: 'pass' }
    const random = new Random(this.#seed + 101 * Number(marker.slice(1)) + backend.charCodeAt(0))
    if (this.refuses.includes(backend)) return { do: 'answer', status: 429, retryAfterS: random.below(3) }
    const dice = random.next()
    if (dice < 0.2) return { do: 'cut', afterBytes: random.below(random.oneOf([300, 3000])) }
    if (dice < 0.3) return { do: 'delay', ms: random.below(400) }
    if (dice < 0.35) return { do: 'swallow' }
    if (dice < 0.45) return { do: 'answer', status: random.oneOf([429, 503, 500]), retryAfterS: 1 }
    return { do: 'pass' }
  }
}

/** All attempts are the same request, each at another backend. */
function expectOneRequest({ marker, model }: Asked, attempts: readonly Attempt[]): void {
  expect(attempts.length).toBeLessThanOrEqual(1 + RETRY.attempts)
  expect(new Set(attempts.map(({ backend }) => backend)).size).toBe(attempts.length)
  const bodies = attempts.map(({ body }) => (model === 'any' ? withModel(body, 'any') : body.toString()))
  expect(new Set(bodies).size, marker).toBeLessThanOrEqual(1)
}

function expectRightCharge(
  asked: Asked,
  seen: Seen,
  attempts: readonly Attempt[],
  charged: { readonly tokens: number; readonly money: number },
): void {
  const [promptTokens, last] = [promptTokensOf(asked), attempts.at(-1)]
  const sentModel = last === undefined ? asked.model : modelIn(last.body)
  const whole = { tokens: promptTokens + asked.maxTokens, money: priceOf(sentModel, promptTokens, asked.maxTokens) }
  const isWhole = Math.abs(charged.money - whole.money) < 10 ** -DIGITS && charged.tokens === whole.tokens
  const isNothing = charged.tokens === 0 && charged.money === 0
  const hasAll = seen.text.length === 4 * asked.maxTokens
  if (seen.end === 'whole') {
    // The length of its prompt, the length it allowed and its model come back to it, and to nobody else.
    expect(seen).toMatchObject({ status: 200, model: sentModel, promptTokens, completionTokens: asked.maxTokens })
    expect([hasAll, last!.status]).toEqual([true, 200])
  }
  // One that is left or breaks off costs what has passed.
  if (seen.end === 'left' || seen.end === 'broken') {
    expect(charged.tokens).toBeLessThanOrEqual(whole.tokens)
    expect(charged.money).toBeLessThanOrEqual(whole.money + 10 ** -DIGITS)
    return
  }
  const isRight = seen.end === 'whole' ? isWhole : isNothing
  expect({ asked, seen, charged, isRight }).toMatchObject({ isRight: true })
}

/** As the backend counts them, and as the estimate does. */
function promptTokensOf({ prompt }: Asked): number {
  return prompt.length / 4
}

function modelIn(body: Buffer): string {
  return (JSON.parse(body.toString()) as { readonly model: string }).model
}

/** The body with another model, and every other byte as it was. */
function withModel(body: Buffer, model: string): string {
  return body.toString().replace(/("model": ?")[^"]*"/, `$1${model}"`)
}
