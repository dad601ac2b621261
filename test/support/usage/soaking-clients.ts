import { setTimeout as sleep } from 'node:timers/promises'
import { CHAT } from '../llm/llm-proxy.ts'
import { StreamClient } from '../llm/stream-client.ts'
import type { Random } from '../random/random.ts'
import { ask, exchange } from '../service/http.ts'
import { POOR } from './soaked-proxy.ts'

const TEAMS = ['red', 'blue', POOR]
const MOST_TOKENS = 400
const UPGRADE =
  'GET /v1/listen HTTP/1.1\r\nHost: a\r\nX-Kind: tunnel\r\nX-Team: red\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n'

/** Clients that ask one thing after another until they are told to stop: whole answers and streams, to their ends or not, and WebSockets. */
export class SoakingClients {
  /** Requests that are over, however they ended. */
  over = 0
  /** How long a client waits before it asks again. */
  pauseMs = 0
  /** When the response of a request was complete, on the monotonic clock, by the request's model. */
  readonly completeAt = new Map<string, number>()
  readonly #port: number
  readonly #random: Random
  #begun = 0
  #isStopped = false

  constructor(port: number, random: Random) {
    this.#port = port
    this.#random = random
  }

  /** Resolves when the last of so many clients has stopped. */
  async play(clients: number): Promise<void> {
    const one = async (): Promise<void> => {
      while (!this.#isStopped) {
        await this.#playOne(this.#begun++).catch(() => undefined)
        this.over++
        await sleep(this.pauseMs)
      }
    }
    await Promise.all(Array.from({ length: clients }, one))
  }

  stop(): void {
    this.#isStopped = true
  }

  async #playOne(number: number): Promise<void> {
    const random = this.#random
    if (random.below(12) === 0) return void (await exchange(this.#port, UPGRADE))
    // A model that nobody else asks for, so that what was generated for this request can be told apart.
    const model = random.below(4) === 0 ? 'any' : `m-${number}`
    const isStream = random.below(3) > 0
    const content = 'x'.repeat(4 * (1 + random.below(50)))
    const body = JSON.stringify({
      model,
      stream: isStream,
      max_tokens: 1 + random.below(MOST_TOKENS),
      messages: [{ role: 'user', content }],
    })
    const fields = [['X-Team', random.oneOf(TEAMS)]] as const
    if (!isStream) {
      if ((await ask(this.#port, 'POST', CHAT, fields, body)).status === 200) this.#noteComplete(model)
      return
    }
    const client = new StreamClient(this.#port, CHAT, body, fields)
    if (random.below(6) === 0) {
      if (random.below(3) > 0) await client.untilText('choices')
      return random.below(2) === 0 ? client.abort() : client.reset()
    }
    await client.untilClosed()
    if (client.status === 200 && client.outcome === 'whole') this.#noteComplete(model)
  }

  #noteComplete(model: string): void {
    this.completeAt.set(model, performance.now())
  }
}
