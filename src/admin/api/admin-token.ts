import { createHash, timingSafeEqual } from 'node:crypto'

/** The bearer token of operators, compared in constant time. */
export class AdminToken {
  readonly #digest: Buffer

  constructor(token: string) {
    this.#digest = digestOf(token)
  }

  /** `authorization`: the value of the header field. */
  isIn(authorization: string): boolean {
    const token = /^bearer +(\S+)$/i.exec(authorization)?.[1]
    return token !== undefined && this.is(token)
  }

  is(token: string): boolean {
    return timingSafeEqual(digestOf(token), this.#digest)
  }
}

function digestOf(token: string): Buffer {
  return createHash('sha256').update(token).digest()
}
