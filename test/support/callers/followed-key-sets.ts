import { setImmediate as turn } from 'node:timers/promises'
import { pino } from 'pino'
import { onTestFinished } from 'vitest'
import { KeySet, readKeySet } from '../../../src/callers/jwt/key-set.ts'
import type { KeySetsChange } from '../../../src/callers/key-sets/key-set-news.ts'
import { KeySets, type KeySetsParts } from '../../../src/callers/key-sets/key-sets.ts'
import type { KeySetEntry } from '../../../src/callers/key-sets/key-source.ts'
import { type EntryKeySets, PROXY_WAIT_MS, WorkerKeySets } from '../../../src/callers/key-sets/worker-key-sets.ts'
import { CounterFamily } from '../../../src/telemetry/metrics/metric-families.ts'
import { MetricMemory, newMetricBuffer } from '../../../src/telemetry/metrics/metric-memory.ts'
import { BundleServer, type Respond } from '../bundles/bundle-server.ts'
import { ManualClock } from '../service/manual-clock.ts'
import { until } from '../until.ts'

interface LoggedLine {
  readonly event: string
  readonly [field: string]: unknown
}

interface Timer {
  readonly atMs: number
  readonly callback: () => void
}

/** Real key sets and real servers, on a clock that the test holds. Workers are on the same thread, and messages between them are cloned and come later. */
export class FollowedKeySets {
  readonly clock = new ManualClock()
  readonly logged: LoggedLine[] = []
  readonly keySets: KeySets
  readonly #workers: WorkerKeySets<KeySet>[] = []
  readonly #timers = new Set<Timer>()
  readonly #metrics = new MetricMemory(newMetricBuffer(1), 0)
  #asks = 0
  #announcements = 0

  constructor(parts: Partial<KeySetsParts> = {}) {
    const logger = pino({ base: null }, { write: (line) => void this.logged.push(JSON.parse(line) as LoggedLine) })
    this.keySets = new KeySets({
      secretsDir: undefined,
      userAgent: 'edge/test',
      clock: this.clock,
      read: readKeySet,
      logger,
      metrics: this.#metrics,
      announce: (change) => this.#announce(change),
      pause: () => new Promise(() => {}), // a first reading is waited for, however long a busy machine takes
      ...parts,
    })
    onTestFinished(() => this.keySets.close())
  }

  /** How often workers have asked. */
  get asks(): number {
    return this.#asks
  }

  get announcements(): number {
    return this.#announcements
  }

  async use(...entries: KeySetEntry[]): Promise<void> {
    await this.keySets.switchTo(entries, async () => {})
    await this.delivered()
  }

  /** A worker of the proxy that starts now. */
  worker(...entries: KeySetEntry[]): EntryKeySets<KeySet> {
    return this.workerWaiting(PROXY_WAIT_MS, ...entries)
  }

  /** A worker whose requests wait this long for a set to be read. */
  workerWaiting(waitMs: number, ...entries: KeySetEntry[]): EntryKeySets<KeySet> {
    const worker = new WorkerKeySets({
      open: (keys) => new KeySet(keys),
      ask: (source) => {
        this.#asks++
        setImmediate(() => this.keySets.ask(source))
      },
      nowMs: () => this.clock.nowMs(),
      waitMs,
      after: (ms, callback) => {
        const timer = { atMs: this.clock.nowMs() + ms, callback }
        this.#timers.add(timer)
        return () => this.#timers.delete(timer)
      },
    })
    this.#workers.push(worker)
    worker.note(structuredClone(this.keySets.all))
    return worker.forEntries(entries)
  }

  /** Time passes, and what is due then happens. */
  advance(ms: number): void {
    this.clock.advance(ms)
    for (const timer of this.#timers) {
      if (timer.atMs > this.clock.nowMs()) continue
      this.#timers.delete(timer)
      timer.callback()
    }
    this.keySets.refreshDue()
  }

  /** Resolves when all messages have arrived that were sent so far, and the answers to them. */
  async delivered(): Promise<void> {
    for (let i = 0; i < 4; i++) await turn()
  }

  async untilLogged(event: string, count: number): Promise<void> {
    await until(() => this.events(event).length >= count)
    await this.delivered()
  }

  events(event: string): LoggedLine[] {
    return this.logged.filter((line) => line.event === event)
  }

  /** Returns the value of each series by its labels, joined. */
  metric(
    name: 'edge_key_set_fetches_total' | 'edge_key_set_keys' | 'edge_key_set_failing' | 'edge_key_set_last_good_timestamp_seconds',
  ): Record<string, number> {
    const values = [...new CounterFamily(this.#metrics, name).values()]
    return Object.fromEntries(values.map(({ labels, value }) => [Object.values(labels).join(' '), value]))
  }

  #announce(change: KeySetsChange): void {
    this.#announcements++
    const message = structuredClone(change)
    setImmediate(() => {
      for (const worker of this.#workers) worker.note(message)
    })
  }
}

/** Serves key sets. */
export class KeySetServer {
  readonly #server: BundleServer

  private constructor(server: BundleServer) {
    this.#server = server
  }

  static async start(...kids: string[]): Promise<KeySetServer> {
    const server = new KeySetServer(await BundleServer.start())
    server.publish(...kids)
    return server
  }

  get url(): string {
    return this.#server.url
  }

  /** How often it was asked. */
  get fetches(): number {
    return this.#server.requests.length
  }

  set respond(respond: Respond) {
    this.#server.respond = respond
  }

  publish(...kids: string[]): void {
    this.respond = (_req, res) => void res.end(keySetText(...kids))
  }

  /** Responds with this status and text. */
  fail(status = 503, text = 'down'): void {
    this.respond = (_req, res) => void res.writeHead(status).end(text)
  }

  /** Holds back its responses until the returned function is called. */
  hold(...kids: string[]): () => void {
    const held: (() => void)[] = []
    let isReleased = false
    this.respond = (_req, res) => {
      const send = (): void => void res.end(keySetText(...kids))
      if (isReleased) send()
      else held.push(send)
    }
    return () => {
      isReleased = true
      for (const send of held) send()
    }
  }
}

/** A public key. In a set that verifies nothing, all keys may be the same. */
const KEY = { kty: 'OKP', crv: 'Ed25519', x: 'A2RwHGJ5hrz9BkvveehuGAmommGn8PP180fetrJYjSo' }

export function keySetText(...kids: string[]): string {
  return JSON.stringify({ keys: kids.map((kid) => ({ ...KEY, kid })) })
}
