import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'

/** Cookies are not bound to a port (RFC 6265 8.5), so a browser may send ours to any other server on this host. */
export const ADMIN_COOKIE = 'edge_admin'
export const DEBUG_COOKIE = 'edge_dbg'

/** Each cookie costs an HMAC to check; a browser sends only one. */
const MAX_COOKIES = 4
const ID_BYTES = 16
const EXPIRY_BYTES = 6
const HEAD_BYTES = ID_BYTES + EXPIRY_BYTES
const SEAL_BYTES = 32

/** Sessions that logged out, each remembered until it would have expired anyway. */
export interface Logouts {
  /** `id` is 16 bytes long. */
  add(id: Buffer, expiresAtS: number): void
  has(id: Buffer, expiresAtS: number): boolean
}

export interface Session {
  readonly id: Buffer
  readonly expiresAtS: number
  /** The text that was put into the cookie when the session was opened. */
  readonly content: string
}

export interface SessionCookiesParts {
  /** Name of the cookie. */
  readonly name: string
  /** Derived from a secret that all instances share. */
  readonly key: Buffer
  readonly lifetimeS: number
  readonly wallMs: () => number
  readonly logouts: Logouts
}

/**
 * Sessions that live in their cookie: a random id, an expiry time and some content, authenticated with a key. Any thread and any instance with the same key
 * accepts them; only logouts have to be remembered.
 */
export class SessionCookies {
  readonly #parts: SessionCookiesParts

  constructor(parts: SessionCookiesParts) {
    this.#parts = parts
  }

  /** Returns a new session and its cookie value. */
  open(content = ''): { session: Session; value: string } {
    const { lifetimeS, wallMs } = this.#parts
    const expiresAtS = Math.floor(wallMs() / 1000) + lifetimeS
    const body = Buffer.concat([randomBytes(ID_BYTES), Buffer.alloc(EXPIRY_BYTES), Buffer.from(content)])
    body.writeUIntBE(expiresAtS, ID_BYTES, EXPIRY_BYTES)
    const value = Buffer.concat([body, this.#seal(body)]).toString('base64url')
    return { session: { id: body.subarray(0, ID_BYTES), expiresAtS, content }, value }
  }

  /** Returns the sessions in a Cookie header that have neither expired nor logged out. At most 4 cookies are checked. */
  find(cookieHeader: string | undefined): Session[] {
    const { name } = this.#parts
    const sessions: Session[] = []
    let seen = 0
    for (const pair of cookieHeader?.split(';') ?? []) {
      const equals = pair.indexOf('=')
      if (pair.slice(0, equals).trim() !== name || ++seen > MAX_COOKIES) continue
      const session = this.#read(pair.slice(equals + 1).trim())
      if (session !== undefined) sessions.push(session)
    }
    return sessions
  }

  close({ id, expiresAtS }: Session): void {
    this.#parts.logouts.add(id, expiresAtS)
  }

  #read(value: string): Session | undefined {
    const bytes = Buffer.from(value, 'base64url')
    if (bytes.length < HEAD_BYTES + SEAL_BYTES || bytes.toString('base64url') !== value) return undefined
    const body = bytes.subarray(0, bytes.length - SEAL_BYTES)
    if (!timingSafeEqual(bytes.subarray(body.length), this.#seal(body))) return undefined
    const id = body.subarray(0, ID_BYTES)
    const expiresAtS = body.readUIntBE(ID_BYTES, EXPIRY_BYTES)
    if (expiresAtS <= this.#parts.wallMs() / 1000 || this.#parts.logouts.has(id, expiresAtS)) return undefined
    return { id, expiresAtS, content: body.toString('utf8', HEAD_BYTES) }
  }

  #seal(body: Buffer): Buffer {
    return createHmac('sha256', this.#parts.key).update(body).digest()
  }
}

/** Returns a Cookie header without our session cookies, which must not reach anyone else; undefined if nothing else is left. */
export function withoutSessionCookies(cookieHeader: string): string | undefined {
  if (!cookieHeader.includes(ADMIN_COOKIE) && !cookieHeader.includes(DEBUG_COOKIE)) return cookieHeader
  const kept = cookieHeader.split(';').filter((pair) => {
    const name = pair.slice(0, pair.indexOf('=')).trim()
    return name !== ADMIN_COOKIE && name !== DEBUG_COOKIE
  })
  return kept.length === 0 ? undefined : kept.join(';').trim()
}
