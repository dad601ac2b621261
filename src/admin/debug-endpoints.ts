import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Logger } from 'pino'
import type { DebugSessions } from '../decide/debug-sessions.ts'
import { cookieHeader, headerValue } from '../http/raw-headers.ts'
import { respondEmpty } from '../http/respond.ts'
import type { CounterFamily } from '../telemetry/metrics/counter-family.ts'
import type { WrongSecrets } from './wrong-secrets.ts'

/** Wrong secrets of one peer in a minute. */
const MAX_LOGGED = 10
const FIRST_DELAY_MS = 50
const MAX_DELAY_MS = 1000

/** POST /v1/debug/session and /v1/debug/logout. */
export class DebugEndpoints {
  readonly #sessions: DebugSessions
  readonly #logger: Logger
  readonly #logins: CounterFamily
  readonly #nowMs: () => number
  readonly #wrongSecrets: WrongSecrets

  constructor(sessions: DebugSessions, logger: Logger, logins: CounterFamily, nowMs: () => number, wrongSecrets: WrongSecrets) {
    this.#sessions = sessions
    this.#logger = logger
    this.#logins = logins
    this.#nowMs = nowMs
    this.#wrongSecrets = wrongSecrets
  }

  handleLogin(req: IncomingMessage, res: ServerResponse): void {
    if (!this.#sessions.isSecret(headerValue(req.rawHeaders, 'x-edge-debug-secret'))) return this.#refuse(req, res)
    this.#logins.series('opened').count++
    this.#logger.info({ event: 'debug_session_opened' }, 'a debug session was opened')
    res.writeHead(204, ['Set-Cookie', this.#sessions.open(), 'Cache-Control', 'no-store']).end()
  }

  handleLogout(req: IncomingMessage, res: ServerResponse): void {
    res.writeHead(204, ['Set-Cookie', this.#sessions.close(cookieHeader(req.rawHeaders)), 'Cache-Control', 'no-store']).end()
  }

  /**
   * Always 403. The first few of a minute from one peer are logged and delayed, each longer than the one before; what comes beyond them
   * costs as little as possible. None of it stops guessing: only a long secret does.
   */
  #refuse(req: IncomingMessage, res: ServerResponse): void {
    this.#logins.series('refused').count++
    const count = this.#wrongSecrets.add(req.socket.remoteAddress, this.#nowMs())
    if (count > MAX_LOGGED) return respondEmpty(res, 403)
    const delayMs = count === 1 ? 0 : Math.min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** (count - 2))
    this.#logger.warn({ event: 'debug_session_refused', delay_ms: delayMs }, 'a debug session was refused: wrong secret')
    if (delayMs === 0) return respondEmpty(res, 403)
    const timer = setTimeout(() => respondEmpty(res, 403), delayMs)
    res.once('close', () => clearTimeout(timer))
  }
}
