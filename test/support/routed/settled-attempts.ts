import { type ClientRequest, type IncomingMessage, request, type ServerResponse } from 'node:http'
import { expect } from 'vitest'
import { ADMIN_ENV, askAdmin } from '../admin/admin-client.ts'
import { budgetRule, concurrencyRule, llmRule, policy } from '../bundles/bundles.ts'
import { CHAT } from '../llm/llm-proxy.ts'
import { HttpBackend } from '../proxy/backend.ts'
import type { PoolChoice, PoolRoute } from '../proxy/backend-pool.ts'
import { type Call, CoolingModel, type Outcome } from '../proxy/cooling-model.ts'
import { hostsOf, routedBundle } from '../proxy/routed.ts'
import { Edge } from '../service/edge.ts'
import { ManualClock } from '../service/manual-clock.ts'
import { metricsOf } from '../service/metrics.ts'
import { until } from '../until.ts'

/** For a token of the prompt and one of the completion. No sum of them is rounded. */
const PRICES: Readonly<Record<string, readonly [number, number]>> = {
  m: [1 / 64, 2 / 64],
  n: [4 / 64, 1 / 64],
  dear: [8 / 64, 16 / 64],
  '*': [32 / 64, 32 / 64],
}
const LIMIT = 1_000_000

/** How a backend ends a call: with a status, by breaking the connection, in the middle of the body; or the client leaves. */
export type CallEnd = 200 | 404 | 429 | 401 | 500 | 'break' | 'half' | 'left'

/** A request on its way. */
interface Flight extends Call {
  readonly promptTokens: number
  readonly maxTokens: number
  readonly client: ClientRequest
  /** At a backend that has not answered yet. */
  at: { readonly backend: string; readonly model: string; readonly res: ServerResponse } | undefined
  /** The beginning of an answer, and the whole of it. */
  head: IncomingMessage | undefined
  answer: { readonly status: number; readonly reason: string; readonly retryAfterS: number } | 'broken' | undefined
}

/**
 * A service on a clock that the test moves, backends that answer when and how the test says, and what must be true of them: which backend gets which
 * attempt, and that each request is decided once, reserved once by the dearest model, and settled once by the model that was sent, or given back.
 */
export class SettledAttempts {
  readonly open: Flight[] = []
  readonly #edge: Edge
  readonly #clock: ManualClock
  readonly #backends: readonly HttpBackend[]
  readonly #routes: readonly PoolRoute[]
  readonly #model = new CoolingModel()
  readonly #flights = new Map<string, Flight>()
  readonly #expected = { requests: 0, reserved: 0, used: 0, moneyReserved: 0, money: 0 }

  private constructor(edge: Edge, clock: ManualClock, backends: readonly HttpBackend[], routes: readonly PoolRoute[]) {
    this.#edge = edge
    this.#clock = clock
    this.#backends = backends
    this.#routes = routes
    this.#model.nowMs = clock.nowMs()
  }

  static async start(names: readonly string[], routes: readonly PoolRoute[]): Promise<SettledAttempts> {
    const clock = new ManualClock()
    const backends: HttpBackend[] = []
    let settled: SettledAttempts | undefined
    for (const name of names)
      backends.push(await HttpBackend.listen(async (_req, res, seen) => settled!.#arrive(name, res, seen.headers, await seen.body())))
    const urls = Object.fromEntries(names.map((name, i) => [name, backends[i]!]))
    const own = Object.fromEntries(names.filter(hasKey).map((name) => [name, { headers: { authorization: 'Bearer {KEY}' } }]))
    const rules = [
      llmRule('tokens', [], { tokens_per_day: LIMIT }),
      budgetRule('money', [], { budget: LIMIT, prices: 'list' }),
      concurrencyRule('in-flight', [], 10_000),
    ]
    const list = Object.fromEntries(
      Object.entries(PRICES).map(([model, [input, output]]) => [model, { input: input * 1e6, output: output * 1e6 }]),
    )
    const bundle = { ...routedBundle(1, urls, routes.map(routeJson), own, [policy('llm', { rules })]), prices: { list } }
    const env = {
      ...ADMIN_ENV,
      EDGE_MODE: 'reverse_proxy',
      EDGE_BACKEND_HOSTS: hostsOf(urls),
      EDGE_SECRET_KEY: 'sk',
      EDGE_SHUTDOWN_MS: '0',
    }
    const edge = await Edge.start({ bundle, clock, env })
    expect(edge.logged('bundle_refused')).toEqual([])
    settled = new SettledAttempts(edge, clock, backends, routes)
    return settled
  }

  async stop(): Promise<void> {
    for (const { client } of this.open) client.destroy()
    await this.#edge.stop()
    await Promise.all(this.#backends.map((backend) => backend.close()))
  }

  wait(ms: number): void {
    this.#clock.advance(ms)
    this.#model.nowMs = this.#clock.nowMs()
  }

  async begin(route: number, model: string, promptTokens: number, maxTokens: number): Promise<Flight> {
    const marker = String(this.#flights.size)
    const body = JSON.stringify({ model, max_tokens: maxTokens, messages: [{ role: 'user', content: 'x'.repeat(4 * promptTokens) }] })
    const headers = { 'X-Marker': marker, 'X-Route': route, 'Content-Type': 'application/json', 'Content-Length': body.length }
    const client = request({ port: this.#edge.port, host: '127.0.0.1', method: 'POST', path: CHAT, headers, agent: false })
    const planned = this.#routes[route]!
    const call = { worker: 0, route: planned, model, tried: [], startedAtMs: this.#clock.nowMs() }
    const flight: Flight = { ...call, promptTokens, maxTokens, client, at: undefined, head: undefined, answer: undefined }
    this.#flights.set(marker, flight)
    follow(flight)
    client.end(body)
    const models = [...planned.group.filter(({ weight }) => weight > 0), ...planned.fallback].map((choice) => choice.model ?? model)
    this.#expected.requests++
    this.#expected.reserved += promptTokens + maxTokens
    this.#expected.moneyReserved += Math.max(...models.map((each) => priceOf(each, promptTokens, maxTokens)))
    await this.#goOn(flight, undefined)
    return flight
  }

  /** Ends the call that a request is waiting for. */
  async end(flight: Flight, end: CallEnd, completionTokens: number, retryAfterS: number | undefined): Promise<void> {
    const { backend, model, res } = flight.at!
    const used = end === 200 ? Math.min(completionTokens, flight.maxTokens) : 0
    this.open.splice(this.open.indexOf(flight), 1)
    if (end === 'left') {
      flight.client.destroy()
      await until(() => res.closed)
    } else if (end === 'break') res.destroy()
    else if (end === 'half') {
      res.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': 1000, Connection: 'close' }).write('{"usage":')
      await until(() => flight.head !== undefined)
      res.destroy()
    } else sendAnswer(res, end, retryAfterS, flight.promptTokens, used)
    flight.at = undefined
    this.#model.end(flight, outcomeOf(end), end === 'break' ? undefined : retryAfterS && retryAfterS * 1000)
    if (end === 429 || end === 500 || end === 'break') return this.#goOn(flight, end === 'break' ? 502 : end)
    await until(() => flight.answer !== undefined)
    expect([backend, flight.answer]).toMatchObject([backend, end === 'half' || end === 'left' ? 'broken' : { status: end }])
    // A client that leaves before the answer pays for its prompt, and so does one whose answer breaks off.
    const promptUsed = end === 200 || end === 'left' || end === 'half' ? flight.promptTokens : 0
    const completionUsed = end === 200 || end === 'left' ? used : 0
    this.#expected.used += promptUsed + completionUsed
    this.#expected.money += priceOf(model, promptUsed, completionUsed)
  }

  /** All that was counted is what the model counts, nothing is under way, and no probe was left behind. */
  async check(): Promise<void> {
    const { requests, reserved, used, moneyReserved, money } = this.#expected
    await until(async () => (await metricsOf(this.#edge.adminPort)).sum('edge_proxy_open_requests') === 0)
    const metrics = await metricsOf(this.#edge.adminPort)
    expect({
      decided: metrics.sum('edge_decisions_total'),
      settled: metrics.sum('edge_llm_settlements_total'),
      reserved: metrics.sum('edge_llm_tokens_reserved_total'),
      used: metrics.sum('edge_llm_tokens_used_total'),
      moneyReserved: metrics.sum('edge_cost_reserved_total'),
      money: metrics.sum('edge_cost_spent_total'),
    }).toEqual({ decided: requests, settled: requests, reserved, used, moneyReserved, money })
    for (const gauge of ['edge_llm_reservations_in_flight', 'edge_llm_tokens_in_flight', 'edge_cost_in_flight', 'edge_proxy_open_holds'])
      expect([gauge, metrics.sum(gauge)]).toEqual([gauge, 0])
    expect(await this.#spent('tokens')).toBe(used)
    expect(await this.#spent('money')).toBeCloseTo(100 * money, 3)
    await this.#checkProbes()
  }

  /** A probe that nobody ended would keep a request from its backend, at once or at the deadline. */
  async #checkProbes(): Promise<void> {
    for (const [number, { group, fallback }] of this.#routes.entries()) {
      await this.#answerOne(number)
      for (const choice of [...group, ...fallback]) this.wait(Math.max(0, this.#model.untilMs(choice, 'm') - this.#model.nowMs))
      await this.#answerOne(number)
    }
  }

  async #answerOne(route: number): Promise<void> {
    const flight = await this.begin(route, 'm', 1, 1)
    if (flight.at !== undefined) await this.end(flight, 200, 1, undefined)
  }

  /** Waits until the request is at another backend or its client has an answer, and looks whether the model allows that. */
  async #goOn(flight: Flight, last: number | undefined): Promise<void> {
    const allowed = this.#model.allowed(flight)
    await until(() => flight.at !== undefined || flight.answer !== undefined)
    if (flight.at !== undefined) {
      const { backend, model } = flight.at
      const isThis = (choice: PoolChoice | 'cooling' | undefined): choice is PoolChoice =>
        typeof choice === 'object' && choice.backend.name === backend && (choice.model ?? flight.model) === model
      const chosen = allowed.find(isThis)
      expect({ backend, model, allowed }).toMatchObject({ allowed: expect.arrayContaining([chosen]) })
      expect(chosen).toBeDefined()
      this.#model.begin(flight, chosen!)
      this.open.push(flight)
    } else if (last === undefined) {
      expect([allowed, flight.answer]).toMatchObject([['cooling'], { status: 503 }])
      const choices = [...flight.route.group, ...flight.route.fallback].filter(({ weight }) => weight > 0)
      const nearestMs = Math.min(...choices.map((choice) => this.#model.untilMs(choice, flight.model)))
      const retryAfterS = Math.ceil(Math.max(nearestMs - this.#model.nowMs, 1000) / 1000)
      expect(flight.answer).toEqual({ status: 503, reason: 'backends_cooling', retryAfterS })
    } else {
      expect(allowed).toEqual([undefined])
      expect(flight.answer).toMatchObject({ status: last })
    }
  }

  #arrive(backend: string, res: ServerResponse, headers: IncomingMessage['headers'], body: Buffer): void {
    const { model } = JSON.parse(body.toString()) as { readonly model: string }
    this.#flights.get(headers['x-marker'] as string)!.at = { backend, model, res }
  }

  async #spent(rule: string): Promise<number> {
    const { json } = await askAdmin(this.#edge.adminPort, 'GET', `counters?policy=llm&rule=${rule}`)
    return json.counters[0].limit - json.counters[0].level
  }
}

function follow(flight: Flight): void {
  const broken = (): void => {
    flight.answer ??= 'broken'
  }
  flight.client.on('error', broken)
  flight.client.on('response', (response) => {
    flight.head = response
    const { statusCode, headers } = response
    const [reason, retryAfterS] = [String(headers['x-edge-reason'] ?? ''), Number(headers['retry-after'] ?? 0)]
    response.resume().on('error', broken)
    response.on('end', () => {
      flight.answer = { status: statusCode!, reason, retryAfterS }
    })
  })
}

function sendAnswer(res: ServerResponse, status: number, retryAfterS: number | undefined, promptTokens: number, used: number): void {
  const usage = { prompt_tokens: promptTokens, completion_tokens: used, total_tokens: promptTokens + used }
  const body = status === 200 ? { object: 'chat.completion', choices: [], usage } : { error: { message: 'no' } }
  // Each call has a connection of its own, so that none is repeated because a kept connection was closed.
  const fields = {
    'Content-Type': 'application/json',
    Connection: 'close',
    ...(retryAfterS !== undefined && { 'Retry-After': retryAfterS }),
  }
  res.writeHead(status, fields).end(JSON.stringify(body))
}

function routeJson({ group, fallback, retry }: PoolRoute, number: number): Record<string, unknown> {
  const json = ({ backend: { name }, weight, model }: PoolChoice): object => ({
    name,
    ...(weight !== 1 && { weight }),
    ...(model && { model }),
  })
  return {
    match: { 'header:x-route': String(number) },
    backends: group.map(json),
    ...(fallback.length > 0 && { fallback: fallback.map(json) }),
    retry: { on: [429, '5xx'], attempts: retry.attempts },
  }
}

function outcomeOf(end: CallEnd): Outcome {
  return end === 'half' ? 200 : end === 'break' ? 500 : end
}

function hasKey(name: string): boolean {
  return !name.startsWith('open')
}

function priceOf(model: string, promptTokens: number, completionTokens: number): number {
  const [input, output] = PRICES[model]!
  return promptTokens * input + completionTokens * output
}
