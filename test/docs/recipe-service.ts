import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { load } from 'js-yaml'
import { expect } from 'vitest'
import { ADMIN_ENV, askAdmin } from '../support/admin/admin-client.ts'
import { jwt } from '../support/bundles/bundles.ts'
import { jwkOf, keySetText, signedToken, testKey } from '../support/callers/test-issuer.ts'
import { HttpBackend } from '../support/proxy/backend.ts'
import type { Edge } from '../support/service/edge.ts'
import { type Answer, ask, type Fields } from '../support/service/http.ts'
import { ManualClock } from '../support/service/manual-clock.ts'
import { metric } from '../support/service/metrics.ts'
import { running, scratchDirectory } from '../support/service/running.ts'
import { until } from '../support/until.ts'
import type { Exchange, Mode } from './recipes.ts'

/** Fields that a page shows if, and only if, a response has them. */
const TELLING = ['ratelimit', 'retry-after', 'x-edge-reason', 'x-should-retry']
/** The same of a request that a backend gets. */
const CREDENTIALS = ['authorization', 'x-api-key', 'api-key']

/** The service with the bundle of a recipe, for as long as the test runs. Its clock begins on 15 January 2026 at noon UTC. */
export class RecipeService {
  readonly edge: Edge
  readonly #mode: Mode
  readonly #clock: ManualClock
  readonly #backend: RecipeBackend
  /** Those of the bundle, by name. */
  readonly #named: ReadonlyMap<string, RecipeBackend>
  readonly #issuedKeys = new Map<string, string>()
  /** Whether rules correct or release at the end of a request what they took. */
  readonly #isSettled: boolean
  readonly #bundle: string

  private constructor(
    edge: Edge,
    bundle: string,
    mode: Mode,
    clock: ManualClock,
    backend: RecipeBackend,
    named: ReadonlyMap<string, RecipeBackend>,
  ) {
    this.edge = edge
    this.#named = named
    this.#bundle = bundle
    this.#isSettled = mode === 'reverse_proxy' && /_llm|cost_budget|concurrency/.test(bundle)
    this.#mode = mode
    this.#clock = clock
    this.#backend = backend
  }

  static async start(bundle: string, mode: Mode): Promise<RecipeService> {
    const clock = new ManualClock()
    const backend = await RecipeBackend.start()
    const named = await startBackends(bundle)
    const secrets = await secretsOf(bundle)
    const hosts = Array.from(named.values(), ({ url }) => new URL(url).host)
    const proxyEnv = hosts.length > 0 ? { EDGE_BACKEND_HOSTS: hosts.join(',') } : { EDGE_BACKEND_URL: backend.url }
    const env = { ...ADMIN_ENV, EDGE_MODE: mode, EDGE_SECRETS_DIR: secrets, ...(mode === 'reverse_proxy' && proxyEnv) }
    // The issuers of recipes are not there to be asked.
    const text = withBackends(bundle, named).replaceAll(/jwks_url: \S+/g, 'jwks_file: recipe.json')
    return new RecipeService(await running({ bundle: text, fileName: 'limits.yaml', clock, env }), bundle, mode, clock, backend, named)
  }

  /** Sends what the page shows, and expects what it shows. */
  async play(exchange: Exchange): Promise<void> {
    const { when, status, responseFields, responseBody, forwarded } = exchange
    for (const [name, backend] of this.#named) backend.failure = when.failing.get(name)
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
      if (isLast && forwarded !== undefined) await this.#named.get(forwarded.backend)!.expectLast(forwarded)
    }
    this.#backend.release()
    await Promise.all(held)
  }

  metric(series: string): Promise<number> {
    return metric(this.edge.adminPort, series)
  }

  async #ask({ method, uri, fields, body, when }: Exchange): Promise<Answer> {
    const all = await this.#sent(fields, when.address)
    if (this.#mode === 'decision_service') return this.edge.decide({ method, uri, fields: all })
    const answer = await ask(this.edge.port, method, uri, all, body)
    if (this.#isSettled) await until(async () => (await this.metric('edge_proxy_open_requests')) === this.#backend.held)
    return answer
  }

  async #inFlight({ method, uri, fields, body, when }: Exchange): Promise<Promise<Answer>[]> {
    this.#backend.holds = when.inFlight
    const all = await this.#sent(fields, when.address)
    const held = Array.from({ length: when.inFlight }, () => ask(this.edge.port, method, uri, all, body))
    await until(() => this.#backend.held === when.inFlight)
    return held
  }

  async #sent(fields: Exchange['fields'], address: string): Promise<Fields> {
    const filled: [string, string][] = []
    for (const [name, value] of fields) {
      const [, meant] = /<(.*)>/.exec(value) ?? []
      filled.push([name, meant === undefined ? value : value.replace(`<${meant}>`, await this.#credential(meant))])
    }
    return [...filled, ['X-Forwarded-For', address]]
  }

  /** `an issued key, team: search` stands for a key with these labels, anything else for a token with these claims. */
  async #credential(meant: string): Promise<string> {
    const [, labels] = /^an issued key, (.*)$/.exec(meant) ?? []
    if (labels === undefined) return tokenOf(meant, this.#bundle)
    let key = this.#issuedKeys.get(labels)
    if (key === undefined) {
      const body = { labels: load(`{${labels}}`), reason: 'recipe' }
      key = (await askAdmin(this.edge.adminPort, 'POST', 'keys', { body })).json.key as string
      this.#issuedKeys.set(labels, key)
    }
    return key
  }
}

interface RecipeBundle {
  readonly backends?: Readonly<Record<string, { readonly url: string }>>
  readonly callers?: { readonly jwt?: readonly { readonly issuer: string; readonly audiences: readonly string[] }[] }
}

async function startBackends(bundle: string): Promise<ReadonlyMap<string, RecipeBackend>> {
  const names = Object.keys((load(bundle) as RecipeBundle).backends ?? {})
  return new Map(await Promise.all(names.map(async (name) => [name, await RecipeBackend.start()] as const)))
}

/** The bundle with each backend where it really is; paths in URLs stay. */
function withBackends(text: string, named: ReadonlyMap<string, RecipeBackend>): string {
  if (named.size === 0) return text
  const { backends = {}, ...rest } = load(text) as RecipeBundle
  const moved = Object.entries(backends).map(([name, backend]) => {
    const { pathname } = new URL(backend.url)
    return [name, { ...backend, url: `${named.get(name)!.url}${pathname === '/' ? '' : pathname}` }]
  })
  // JSON is YAML.
  return JSON.stringify({ ...rest, backends: Object.fromEntries(moved) }, undefined, 1)
}

/** A directory with the key set of the issuer, and the secrets that the bundle names: the value of OPENAI is `<OPENAI>`. */
async function secretsOf(bundle: string): Promise<string> {
  const directory = await scratchDirectory()
  await writeFile(join(directory, 'recipe.json'), keySetText(jwkOf(ISSUER)))
  for (const [, name] of bundle.matchAll(/\{([A-Z][A-Z0-9_]*)\}/g)) await writeFile(join(directory, name!), `<${name}>`)
  return directory
}

/** Signs the tokens of all issuers that recipes name. */
const ISSUER = testKey('P-256')

/** `plan: pro, sub: ada` as a token with these claims; the first issuer that the bundle names has signed it for its first audience. */
function tokenOf(text: string, bundle: string): string {
  const claims = load(`{${text}}`) as object
  const { callers } = load(bundle) as RecipeBundle
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
  /** How all requests fail from now on. */
  failure: { readonly status: number; readonly retryAfter: string | undefined } | undefined
  readonly #backend: HttpBackend
  #releases: (() => void)[] = []

  private constructor(backend: HttpBackend) {
    this.#backend = backend
    this.url = backend.url
    backend.handler = async (_req, res, seen) => {
      const { max_tokens: tokens = 0 } = JSON.parse((await seen.body()).toString() || '{}') as { max_tokens?: number }
      if (this.failure !== undefined) {
        const { status, retryAfter } = this.failure
        res.writeHead(status, retryAfter === undefined ? {} : { 'Retry-After': retryAfter }).end()
        return
      }
      if (this.holds > 0) await this.#wait()
      res.setHeader('Content-Type', 'application/json')
      res.end(JSON.stringify({ choices: [], usage: { prompt_tokens: 0, completion_tokens: tokens } }))
    }
  }

  static async start(): Promise<RecipeBackend> {
    return new RecipeBackend(await HttpBackend.start())
  }

  /** The latest request was this one. */
  async expectLast({ method, target, fields, body }: NonNullable<Exchange['forwarded']>): Promise<void> {
    const seen = this.#backend.seen.at(-1)!
    const names = new Set([...CREDENTIALS, ...fields.map(([name]) => name.toLowerCase())])
    const got = Object.fromEntries([...names].flatMap((name) => (seen.headers[name] === undefined ? [] : [[name, seen.headers[name]]])))
    expect([seen.method, seen.url, got, ...(body === undefined ? [] : [(await seen.body()).toString()])]).toEqual([
      method,
      target,
      Object.fromEntries(fields.map(([name, value]) => [name.toLowerCase(), value])),
      ...(body === undefined ? [] : [body]),
    ])
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
