import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { load } from 'js-yaml'
import { expect } from 'vitest'
import { jwt } from '../support/bundles/bundles.ts'
import { jwkOf, keySetText, signedToken, testKey } from '../support/callers/test-issuer.ts'
import { HttpBackend } from '../support/proxy/backend.ts'
import type { Edge } from '../support/service/edge.ts'
import { type Answer, ask, type Fields } from '../support/service/http.ts'
import { ManualClock } from '../support/service/manual-clock.ts'
import { running, scratchDirectory } from '../support/service/running.ts'
import { until } from '../support/until.ts'
import type { Exchange, Mode } from './recipes.ts'

/** Fields that a page shows if, and only if, a response has them. */
const TELLING = ['ratelimit', 'retry-after', 'x-edge-reason', 'x-should-retry']

/** The service with the bundle of a recipe, for as long as the test runs. Its clock begins on 15 January 2026 at noon UTC. */
export class RecipeService {
  readonly edge: Edge
  readonly #mode: Mode
  readonly #clock: ManualClock
  readonly #backend: RecipeBackend
  /** Whether rules correct or release at the end of a request what they took. */
  readonly #isSettled: boolean
  readonly #bundle: string

  private constructor(edge: Edge, bundle: string, mode: Mode, clock: ManualClock, backend: RecipeBackend) {
    this.edge = edge
    this.#bundle = bundle
    this.#isSettled = mode === 'reverse_proxy' && /_llm|cost_budget|concurrency/.test(bundle)
    this.#mode = mode
    this.#clock = clock
    this.#backend = backend
  }

  static async start(bundle: string, mode: Mode): Promise<RecipeService> {
    const clock = new ManualClock()
    const backend = await RecipeBackend.start()
    const secrets = await scratchDirectory()
    await writeFile(join(secrets, 'recipe.json'), keySetText(jwkOf(ISSUER)))
    const env = { EDGE_MODE: mode, EDGE_SECRETS_DIR: secrets, ...(mode === 'reverse_proxy' && { EDGE_BACKEND_URL: backend.url }) }
    // The issuers of recipes are not there to be asked.
    const text = bundle.replaceAll(/jwks_url: \S+/g, 'jwks_file: recipe.json')
    return new RecipeService(await running({ bundle: text, fileName: 'limits.yaml', clock, env }), bundle, mode, clock, backend)
  }

  /** Sends what the page shows, and expects what it shows. */
  async play(exchange: Exchange): Promise<void> {
    const { when, status, responseFields, responseBody } = exchange
    this.#clock.advance(when.laterMs + (when.atMs === undefined ? 0 : when.atMs - this.#clock.wallMs()))
    const held = await this.#inFlight(exchange)
    for (let i = 0; i < when.times; i++) {
      const answer = await this.#ask(exchange)
      const isLast = i === when.times - 1
      expect([answer.status, ...(isLast ? [shownFields(answer, responseFields)] : [])]).toEqual([
        status,
        ...(isLast ? [Object.fromEntries(responseFields.map(([name, value]) => [name.toLowerCase(), value]))] : []),
      ])
      if (responseBody !== undefined && this.#mode === 'reverse_proxy') expect(answer.body).toBe(responseBody)
    }
    this.#backend.release()
    await Promise.all(held)
  }

  async #ask({ method, uri, fields, body, when }: Exchange): Promise<Answer> {
    const all = this.#sent(fields, when.address)
    if (this.#mode === 'decision_service') return this.edge.decide({ method, uri, fields: all })
    const answer = await ask(this.edge.port, method, uri, all, body)
    if (this.#isSettled) await until(async () => (await this.edge.metric('edge_proxy_open_requests')) === this.#backend.held)
    return answer
  }

  async #inFlight({ method, uri, fields, body, when }: Exchange): Promise<Promise<Answer>[]> {
    this.#backend.holds = when.inFlight
    const all = this.#sent(fields, when.address)
    const held = Array.from({ length: when.inFlight }, () => ask(this.edge.port, method, uri, all, body))
    await until(() => this.#backend.held === when.inFlight)
    return held
  }

  #sent(fields: Exchange['fields'], address: string): Fields {
    const filled = fields.map(
      ([name, value]) => [name, value.replace(/<(.*)>/, (_, claims: string) => tokenOf(claims, this.#bundle))] as const,
    )
    return [...filled, ['X-Forwarded-For', address]]
  }
}

/** Signs the tokens of all issuers that recipes name. */
const ISSUER = testKey('P-256')

/** `plan: pro, sub: ada` as a token with these claims; the first issuer that the bundle names has signed it for its first audience. */
function tokenOf(text: string, bundle: string): string {
  const claims = load(`{${text}}`) as object
  const { callers } = load(bundle) as { callers?: { jwt?: { issuer: string; audiences: string[] }[] } }
  const entry = callers?.jwt?.[0]
  if (entry === undefined) return jwt(claims)
  return signedToken('ES256', ISSUER, { iss: entry.issuer, aud: entry.audiences[0], exp: 4_000_000_000, ...claims })
}

function shownFields(answer: Answer, shown: Exchange['responseFields']): Record<string, string> {
  const names = new Set([...TELLING, ...shown.map(([name]) => name.toLowerCase())])
  return Object.fromEntries([...names].flatMap((name) => (answer.headers[name] === undefined ? [] : [[name, answer.headers[name]]])))
}

/** Replies like an LLM that uses all tokens it may, and can leave requests waiting. */
class RecipeBackend {
  readonly url: string
  /** How many of the next requests wait. */
  holds = 0
  held = 0
  #releases: (() => void)[] = []

  private constructor(backend: HttpBackend) {
    this.url = backend.url
    backend.handler = async (_req, res, seen) => {
      const { max_tokens: tokens = 0 } = JSON.parse((await seen.body()).toString() || '{}') as { max_tokens?: number }
      if (this.holds > 0) await this.#wait()
      res.setHeader('Content-Type', 'application/json')
      res.end(JSON.stringify({ choices: [], usage: { prompt_tokens: 0, completion_tokens: tokens } }))
    }
  }

  static async start(): Promise<RecipeBackend> {
    return new RecipeBackend(await HttpBackend.start())
  }

  release(): void {
    for (const release of this.#releases) release()
    this.#releases = []
    this.held = 0
  }

  #wait(): Promise<void> {
    this.holds--
    this.held++
    return new Promise((resolve) => this.#releases.push(resolve))
  }
}
