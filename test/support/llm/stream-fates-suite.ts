import { expect, test } from 'vitest'
import { Random } from '../random/random.ts'
import { until } from '../until.ts'
import { both, CHAT, HELLO, HELLO_TOKENS, type LlmProxy, llmProxy } from './llm-proxy.ts'
import { chatChunk, sse } from './llm-streams.ts'
import { type ScriptedCall, type ScriptedLlm, scriptedLlm } from './scripted-llm.ts'
import type { StreamClient } from './stream-client.ts'

/** How a stream ends, what that costs of its events, and as what it is settled. */
const FATES = ['whole', 'half closed', 'client leaves', 'client resets', 'backend resets', 'too long'] as const
type Fate = (typeof FATES)[number]

const EVENTS = 12
const MAX = 20
const SETTLED_AS = {
  whole: 'done',
  'half closed': 'done',
  'client leaves': 'client_gone',
  'client resets': 'client_gone',
  'backend resets': 'backend_failed',
  'too long': 'truncated',
} as const satisfies Record<Fate, string>

/** So many streams at once, each with an end of its own at a moment of its own: none is lost, and what they cost is exact. */
export function streamFatesSuite(streams: number, env: Readonly<Record<string, string>>, seed = 19): void {
  test(`${streams} streams with clients and backends that leave at random: none is lost, and every token is accounted for`, async () => {
    const random = new Random(seed)
    const backend = await scriptedLlm()
    const settings = { config: { max_completion_tokens: MAX }, streaming: { buffer_tokens: 1 } }
    const proxy = await llmProxy(backend, { ...settings, minuteTokens: 100_000, dayTokens: 40_000, env })
    const all = Array.from({ length: streams }, (_, number) => new FatedStream(proxy, number, random))
    await until(() => backend.calls.length === streams)
    for (const stream of all) stream.begin(backend)
    await Promise.all(all.map((stream) => stream.untilHead()))
    expect(await proxy.edge.metric('edge_llm_open_streams')).toBe(streams)
    await Promise.all(all.map((stream) => stream.live()))

    const tokens = all.reduce((sum, { cost }) => sum + cost, 0)
    expect(await proxy.spent()).toEqual(both(tokens))
    expect(await proxy.settlements()).toEqual(counted(all.map(({ fate }) => SETTLED_AS[fate])))
    const left = all.filter(({ fate }) => fate === 'client leaves' || fate === 'client resets').length
    expect(await proxy.edge.metric('edge_proxy_client_aborts_total')).toBe(left)
    const reset = all.filter(({ fate }) => fate === 'backend resets').length
    expect(await proxy.edge.metric('edge_backend_failures_total{reason="backend_reset"}')).toBe(reset)
    expect(proxy.edge.logged('internal_error')).toEqual([])
  }, 300_000)
}

class FatedStream {
  readonly fate: Fate
  readonly #number: number
  readonly #random: Random
  readonly #client: StreamClient
  /** After so many events it comes to its end. */
  readonly #events: number
  #call: ScriptedCall | undefined

  constructor(proxy: LlmProxy, number: number, random: Random) {
    this.fate = random.oneOf(FATES)
    this.#number = number
    this.#random = random
    this.#events = this.fate === 'whole' || this.fate === 'half closed' ? EVENTS : 1 + random.below(EVENTS)
    this.#client = proxy.open(CHAT, { stream: true, messages: HELLO, max_tokens: MAX, user: this.#name })
  }

  /** What it comes to, its prompt included. */
  get cost(): number {
    return HELLO_TOKENS + (this.fate === 'too long' ? MAX + 1 : this.#events)
  }

  get #name(): string {
    return `s${String(this.#number).padStart(4, '0')}`
  }

  begin({ calls }: ScriptedLlm): void {
    this.#call = calls.find(({ body }) => body.includes(`"${this.#name}"`))!
    this.#call.begin()
  }

  async untilHead(): Promise<void> {
    await this.#client.untilHead()
  }

  async live(): Promise<void> {
    const halfCloseAt = this.fate === 'half closed' ? this.#random.below(this.#events) : -1
    for (let event = 0; event < this.#events; event++) {
      if (event === halfCloseAt) this.#client.endSide()
      await this.#say(event)
      if (this.#random.next() < 0.3) await this.#client.untilText(this.#textOf(event))
    }
    await this.#client.untilText(this.#textOf(this.#events - 1))
    await this.#end()
    this.#expectOwnEvents()
  }

  async #end(): Promise<void> {
    const [client, call] = [this.#client, this.#call!]
    switch (this.fate) {
      case 'whole':
      case 'half closed':
        call.end(chatChunk({}, 'stop') + sse('[DONE]'))
        await client.untilClosed()
        return expect([this.#name, client.outcome, client.events.at(-1)]).toEqual([this.#name, 'whole', { data: '[DONE]' }])
      case 'client leaves':
        client.abort()
        return until(() => call.isAborted)
      case 'client resets':
        client.reset()
        return until(() => call.isAborted)
      case 'backend resets':
        call.reset()
        await client.untilClosed()
        return expect([this.#name, client.outcome]).toEqual([this.#name, 'broken'])
      case 'too long':
        for (let event = this.#events; event <= MAX; event++) await this.#say(event)
        await client.untilClosed()
        return expect([this.#name, client.outcome, client.text.includes('"finish_reason":"length"')]).toEqual([this.#name, 'whole', true])
    }
  }

  /** Four characters: a token. */
  async #say(event: number): Promise<void> {
    await this.#call!.write(chatChunk({ content: this.#textOf(event) }))
  }

  #textOf(event: number): string {
    return String.fromCharCode(0x61 + event) + this.#number.toString(36).padStart(3, '0')
  }

  #expectOwnEvents(): void {
    const contents = this.#client.text.matchAll(/"content":"([^"]*)"/g)
    const seen = [...contents].map(([, content]) => content)
    expect(seen).toEqual(seen.map((_, event) => this.#textOf(event)))
    expect(seen.length).toBeGreaterThanOrEqual(this.#events)
  }
}

function counted(names: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const name of names) counts[name] = (counts[name] ?? 0) + 1
  return counts
}
