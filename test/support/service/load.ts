import { Agent, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Fields } from './http.ts'

/** Between an answer and the next question: what is tested needs the machine more than its callers do. */
const BREATH_MS = 2

/** Callers that ask /v1/decision again and again, each on a connection of its own that it keeps. */
export class Load {
  readonly statuses = new Map<number, number>()
  /** Allowed requests by the rule that their RateLimit header names. */
  readonly allowedBy = new Map<string, number>()
  /** Questions that got no answer. */
  readonly errors: Error[] = []
  readonly #port: number
  readonly #fields: Fields
  readonly #lanes: Promise<void>[] = []
  readonly #open = new Set<number>()
  #asked = 0
  #isOver = false

  constructor(port: number, fields: Fields, lanes: number) {
    this.#port = port
    this.#fields = fields
    this.grow(lanes)
  }

  /** So many callers more. */
  grow(lanes: number): void {
    for (let i = 0; i < lanes; i++) this.#lanes.push(this.#run())
  }

  /** The numbers of the questions that wait for their answer. */
  get open(): readonly number[] {
    return [...this.#open]
  }

  get laneCount(): number {
    return this.#lanes.length
  }

  get total(): number {
    return [...this.statuses.values()].reduce((sum, count) => sum + count, 0)
  }

  count(status: number): number {
    return this.statuses.get(status) ?? 0
  }

  /** Asks nothing more, and is done when everything asked was answered. */
  async stop(): Promise<void> {
    this.#isOver = true
    await Promise.all(this.#lanes)
  }

  async #run(): Promise<void> {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    while (!this.#isOver) {
      const question = ++this.#asked
      this.#open.add(question)
      await this.#ask(agent).catch((error: Error) => void this.errors.push(error))
      this.#open.delete(question)
      await sleep(BREATH_MS)
    }
    agent.destroy()
  }

  #ask(agent: Agent): Promise<void> {
    const headers = [...this.#fields.flat(), 'Host', 'edge']
    const options = { host: '127.0.0.1', port: this.#port, method: 'POST', path: '/v1/decision', headers, agent }
    return new Promise((resolve, reject) => {
      const req = request(options, (res) => {
        increment(this.statuses, res.statusCode!)
        if (res.statusCode === 200) increment(this.allowedBy, String(res.headers['ratelimit']).split(';')[0]!)
        res.resume().on('end', resolve).on('error', reject)
      })
      req.on('error', reject).end()
    })
  }
}

function increment<Key>(counts: Map<Key, number>, key: Key): void {
  counts.set(key, (counts.get(key) ?? 0) + 1)
}
