import type { IncomingMessage } from 'node:http'
import type { Logger } from 'pino'
import { fieldValue } from '../../http/raw-headers.ts'
import type { WrongSecrets } from '../wrong-secrets.ts'
import { actorOf } from './actor.ts'
import type { AdminToken } from './admin-token.ts'
import { ApiError } from './api-error.ts'

/** Wrong tokens of one peer in a minute: beyond them nothing is logged. */
const MAX_WRONG_TOKENS = 10

export interface AccessParts {
  readonly token: AdminToken
  readonly wrongTokens: WrongSecrets
  readonly logger: Logger
  readonly nowMs: () => number
}

/** Who may use the admin API: whoever sends the token in the header field, and nowhere else. */
export class Access {
  readonly #parts: AccessParts

  constructor(parts: AccessParts) {
    this.#parts = parts
  }

  /** Returns who asks. The right token always passes, however many wrong ones came before. */
  check(req: IncomingMessage): string {
    const authorization = fieldValue(req.rawHeaders, 'authorization')
    if (authorization === undefined) throw new ApiError('unauthorized', 'send the admin token as Authorization: Bearer TOKEN')
    if (typeof authorization !== 'string' || !this.#parts.token.isIn(authorization)) throw this.#wrong(req)
    return actorOf(req)
  }

  /** Requests without a token guess nothing, and are neither counted nor logged. */
  #wrong(req: IncomingMessage): ApiError {
    const { wrongTokens, logger, nowMs } = this.#parts
    const count = wrongTokens.add(req.socket.remoteAddress, nowMs())
    if (count > MAX_WRONG_TOKENS) return new ApiError('too_many_attempts', 'too many wrong tokens: try again in a minute')
    logger.warn({ event: 'admin_refused' }, 'a request to the admin API was refused: its token is wrong')
    return new ApiError('unauthorized', 'the admin token is wrong')
  }
}
