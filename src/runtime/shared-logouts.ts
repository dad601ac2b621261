import type { Logger } from 'pino'
import { ADMIN_SESSION_S } from '../sessions/admin-sessions.ts'
import { DEBUG_SESSION_S } from '../sessions/debug-sessions.ts'
import type { Logouts } from '../sessions/session-cookies.ts'
import { LinkError } from '../store/redis/link/call.ts'
import type { RedisLink } from '../store/redis/link/redis-link.ts'

/** Sessions of one kind: the name of their logouts in Redis, a sorted set, and how long a session lasts. */
interface SessionKind {
  readonly name: string
  readonly lifetimeS: number
}

export const DEBUG_LOGOUTS: SessionKind = { name: 'logouts', lifetimeS: DEBUG_SESSION_S }
export const ADMIN_LOGOUTS: SessionKind = { name: 'admin-logouts', lifetimeS: ADMIN_SESSION_S }

export interface SharedLogoutsParts {
  readonly kind: SessionKind
  readonly link: Pick<RedisLink, 'command'>
  /** Prefix of all keys in Redis. */
  readonly prefix: string
  /** Logouts that this process knows. */
  readonly own: Logouts
  readonly wallMs: () => number
  readonly logger: Logger
}

/** How long a logout that could not be sent waits for the next attempt. */
const RESEND_MS = 1000

/** Logouts on this and every other instance. Each is kept in Redis until its session would have expired. */
export class SharedLogouts implements Logouts {
  readonly #parts: SharedLogoutsParts
  readonly #key: string
  /** Expiry of each session whose logout is unsent, in epoch seconds, by id in hex. A logout may be sent twice, so it stays here until Redis confirms it. */
  readonly #unsent = new Map<string, number>()
  #timer: NodeJS.Timeout | undefined
  #isUnderWay = false
  /** Why Redis refuses to share logouts, while it does. */
  #refusal: string | undefined

  constructor(parts: SharedLogoutsParts) {
    this.#parts = parts
    this.#key = `${parts.prefix}${parts.kind.name}`
  }

  add(id: Buffer, expiresAtS: number): void {
    this.#parts.own.add(id, expiresAtS)
    this.#unsent.set(id.toString('hex'), expiresAtS)
    void this.#exchange(false)
  }

  has(id: Buffer, expiresAtS: number): boolean {
    return this.#parts.own.has(id, expiresAtS)
  }

  stop(): void {
    clearTimeout(this.#timer)
  }

  /** Fetches what other instances announce. One thread of an instance is enough, because `own` is memory of all threads. */
  async fetch(): Promise<void> {
    await this.#exchange(true)
  }

  async #exchange(isFetching: boolean): Promise<void> {
    if (this.#isUnderWay) return
    this.#isUnderWay = true
    try {
      // Whatever was added meanwhile is sent, too.
      if (isFetching) await this.#fetch()
      while (this.#unsent.size > 0) await this.#send()
      this.#noteShared()
    } catch (error) {
      this.#noteFailure(error)
    } finally {
      this.#isUnderWay = false
      if (this.#unsent.size > 0) this.#sendLater()
    }
  }

  /** If Redis is unreachable or refuses, the next attempt may succeed. */
  #sendLater(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined
      void this.#exchange(false)
    }, RESEND_MS).unref()
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
    const { link, kind, wallMs } = this.#parts
    const keptMs = kind.lifetimeS * 1000
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
