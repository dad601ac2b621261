import type { Logger } from 'pino'
import type { Logouts } from '../sessions/session-cookies.ts'
import { LinkError } from '../store/redis/link/call.ts'
import type { RedisLink } from '../store/redis/link/redis-link.ts'

export interface SharedLogoutsParts {
  readonly link: Pick<RedisLink, 'command'>
  /** Key of the sorted set of logouts in Redis. */
  readonly key: string
  /** The longest lifetime of a session. */
  readonly keptMs: number
  /** Logouts that this process knows. */
  readonly own: Logouts
  readonly wallMs: () => number
  readonly logger: Logger
}

/** Interval of polls, and so roughly how long it takes until all instances know of a logout. */
const POLL_MS = 1000

/** Logouts on this and every other instance. Each is kept in Redis until its session would have expired. */
export class SharedLogouts implements Logouts {
  readonly #parts: SharedLogoutsParts
  readonly #key: string
  /** Expiry of each session whose logout is unsent, in epoch seconds, by id in hex. A logout may be sent twice, so it stays here until Redis confirms it. */
  readonly #unsent = new Map<string, number>()
  readonly #timer: NodeJS.Timeout
  #isPolling = false
  /** Why Redis refuses to share logouts, while it does. */
  #refusal: string | undefined

  constructor(parts: SharedLogoutsParts) {
    this.#parts = parts
    this.#key = parts.key
    this.#timer = setInterval(() => void this.#poll(), POLL_MS).unref()
  }

  add(id: Buffer, expiresAtS: number): void {
    this.#parts.own.add(id, expiresAtS)
    this.#unsent.set(id.toString('hex'), expiresAtS)
    void this.#poll()
  }

  has(id: Buffer, expiresAtS: number): boolean {
    return this.#parts.own.has(id, expiresAtS)
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  /** If Redis is unreachable or refuses, the next poll tries again. */
  async #poll(): Promise<void> {
    if (this.#isPolling) return
    this.#isPolling = true
    try {
      await this.#send()
      await this.#fetch()
      this.#noteShared()
    } catch (error) {
      this.#noteFailure(error)
    } finally {
      this.#isPolling = false
    }
  }

  #noteShared(): void {
    if (this.#refusal === undefined) return
    this.#refusal = undefined
    this.#parts.logger.info({ event: 'logouts_shared' }, 'logouts are shared again')
  }

  #noteFailure(error: unknown): void {
    // The circuit already logs that Redis is unreachable.
    if (error instanceof LinkError && error.outcome !== 'refused') return
    const reason = error instanceof Error ? error.message : String(error)
    if (reason === this.#refusal) return
    this.#refusal = reason
    const what = 'logouts are not shared: a user who logs out here stays logged in on other instances, and vice versa'
    this.#parts.logger.warn({ event: 'logouts_not_shared', reason }, what)
  }

  async #send(): Promise<void> {
    const { link, keptMs, wallMs } = this.#parts
    for (const [id, expiresAtS] of this.#unsent) {
      await link.command('zadd', this.#key, String(expiresAtS), id)
      await link.command('pexpire', this.#key, String(keptMs))
      await link.command('zremrangebyscore', this.#key, '-inf', String(Math.floor(wallMs() / 1000)))
      this.#unsent.delete(id)
    }
  }

  async #fetch(): Promise<void> {
    const { link, own, wallMs } = this.#parts
    const found = (await link.command('zrangebyscore', this.#key, String(Math.floor(wallMs() / 1000)), '+inf', 'WITHSCORES')) as string[]
    for (let i = 0; i + 1 < found.length; i += 2) {
      const id = Buffer.from(found[i]!, 'hex')
      const expiresAtS = Number(found[i + 1])
      if (id.length === ID_BYTES && !own.has(id, expiresAtS)) own.add(id, expiresAtS)
    }
  }
}

const ID_BYTES = 16
