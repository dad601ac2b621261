import { Agent } from 'node:http'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { bucketRule, budgetRule, type PolicyText, policy, windowRule } from '../support/bundles/bundles.ts'
import { Random } from '../support/random/random.ts'
import type { Findings } from './findings.ts'
import { ProxyRequest } from './proxy-request.ts'
import { PLAY_FIELD } from './soak-backend.ts'

const BURST = 30
/** Where each algorithm limits requests. */
export const PLAIN_PATHS = ['/plain', '/window', '/money'] as const
type PlainPath = (typeof PLAIN_PATHS)[number]
const FAILURES = ['none', 'none', 'none', 'reset', 'status'] as const

export function plainPolicies(): PolicyText[] {
  const keys = ['header:x-caller']
  // A year begins at most once in a run.
  const rules: Readonly<Record<PlainPath, object>> = {
    '/plain': bucketRule('caller', keys, BURST, 1e-6),
    '/window': windowRule('caller', keys, { limit: BURST, period: '1y' }),
    '/money': budgetRule('caller', keys, { budget: BURST / 2, period: '1y', cost: { header: 'X-Cost', default: 0.5 } }),
  }
  return PLAIN_PATHS.map((path) => policy(path.slice(1), { selector: { pathPrefix: path }, rules: [rules[path]] }))
}

/** A caller with a limit that does not refill. */
export class PlainCaller {
  readonly name: string
  readonly seen = { admitted: 0, rejected: 0, unknown: 0 }
  readonly #path: PlainPath

  constructor(name: string, path: PlainPath) {
    this.name = name
    this.#path = path
  }

  async ask(port: number, { body = Buffer.alloc(0), fail = 'none', stayMs = Number.POSITIVE_INFINITY, agent }: AskOptions): Promise<void> {
    const headers = { 'X-Caller': this.name, [PLAY_FIELD]: JSON.stringify({ fail }) }
    const method = body.length > 0 ? 'POST' : 'GET'
    const request = new ProxyRequest({ port, method, path: this.#path, headers, body, agent })
    if (Number.isFinite(stayMs)) {
      await Promise.race([request.over, sleep(stayMs)])
      request.leave(stayMs % 2 === 0)
    }
    await request.over
    if (request.status === 429) this.seen.rejected++
    else if (request.status === undefined) this.seen.unknown++
    else this.seen.admitted++
  }

  /** Takes what is left, and finds whether it was as much as there must be. */
  async check(port: number, findings: Findings, lost = 0): Promise<void> {
    const agent = new Agent({ keepAlive: true })
    for (let i = 0; i <= BURST; i++) await this.ask(port, { agent })
    agent.destroy()
    const { admitted, unknown } = this.seen
    findings.within(`admitted of ${this.name} at ${this.#path}, ${unknown} answers lost`, admitted, BURST - unknown - lost, BURST)
  }
}

interface AskOptions {
  readonly body?: Buffer
  readonly fail?: (typeof FAILURES)[number]
  /** The client leaves then. */
  readonly stayMs?: number
  readonly agent?: Agent
}

/** Requests that cost no tokens: small ones, uploads, backends that fail, clients that leave; and connections that are upgraded. */
export class PlainLoad {
  tunnels = 0
  #isOver = false
  readonly #lanes: Promise<void>[]

  constructor(port: number, callers: readonly PlainCaller[], leavers: readonly PlainCaller[], random: Random, lanes: number) {
    this.#lanes = Array.from({ length: lanes }, () => this.#run(port, callers, leavers, new Random(random.below(2 ** 32))))
    this.#lanes.push(this.#runTunnels(port, new Random(random.below(2 ** 32))))
  }

  async stop(): Promise<void> {
    this.#isOver = true
    await Promise.all(this.#lanes)
  }

  async #run(port: number, callers: readonly PlainCaller[], leavers: readonly PlainCaller[], random: Random): Promise<void> {
    const agent = new Agent({ keepAlive: true })
    while (!this.#isOver) {
      const body = Buffer.alloc(random.below(random.oneOf([1, 1, 2000, 300_000])))
      const kept = random.below(3) > 0 ? { agent } : {}
      if (random.below(3) === 0) await random.oneOf(leavers).ask(port, { body, stayMs: random.below(30), ...kept })
      else await random.oneOf(callers).ask(port, { body, fail: random.oneOf(FAILURES), ...kept })
      await sleep(random.next() * 60)
    }
    agent.destroy()
  }

  async #runTunnels(port: number, random: Random): Promise<void> {
    while (!this.#isOver) {
      await this.#tunnel(port, random)
      await sleep(random.next() * 500)
    }
  }

  async #tunnel(port: number, random: Random): Promise<void> {
    const socket = connect({ port, host: '127.0.0.1' })
    const closed = new Promise<void>((resolve) => {
      socket.on('error', () => {}) // its 'close' follows
      socket.on('close', () => resolve())
    })
    const key = 'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: c29ha2luZyBhbGwgZGF5IQ==\r\n'
    socket.write(`GET /tunnel HTTP/1.1\r\nHost: edge\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n${key}\r\n`)
    const echoed = new Promise<void>((resolve) => {
      socket.once('data', (head) => {
        if (!head.toString('latin1').startsWith('HTTP/1.1 101 ')) return resolve()
        this.tunnels++
        socket.once('data', () => resolve())
        socket.write('some bytes that come back')
      })
    })
    await Promise.race([closed, echoed])
    await sleep(random.next() * 200)
    if (random.below(2) === 0) socket.resetAndDestroy()
    else socket.destroy()
    await closed
  }
}
