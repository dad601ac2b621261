import { createHash, createHmac, hkdfSync, randomBytes, timingSafeEqual } from 'node:crypto'

const COOKIE_NAME = 'edge_dbg'
const LIFETIME_S = 15 * 60
const ATTRIBUTES = 'Path=/; HttpOnly; Secure; SameSite=Strict'
/** Each one costs a digest; a browser sends one. */
const MAX_COOKIES = 4
const ID_BYTES = 16
const EXPIRY_BYTES = 6
const BODY_BYTES = ID_BYTES + EXPIRY_BYTES
const COOKIE_BYTES = BODY_BYTES + 32

/** Sessions that logged out, each until it would have ended anyway. */
export interface Logouts {
  /** `id` has 16 bytes. */
  add(id: Buffer, expiresAtS: number): void
  has(id: Buffer, expiresAtS: number): boolean
}

/**
 * Debug sessions live in their cookie: a random id and the time it ends, authenticated with a key made from the secret.
 * Any thread and any instance with the same secret accepts them; only those that logged out are remembered.
 */
export class DebugSessions {
  readonly #secretDigest: Buffer
  readonly #key: Buffer
  readonly #wallMs: () => number
  readonly #revoked: Logouts

  constructor(secret: string, wallMs: () => number, revoked: Logouts) {
    const bytes = Buffer.from(secret, 'utf8')
    this.#secretDigest = sha256(bytes)
    this.#key = Buffer.from(hkdfSync('sha256', bytes, '', 'edge debug session cookie', 32))
    this.#wallMs = wallMs
    this.#revoked = revoked
  }

  /** Compares digests, so that neither content nor length shows in the time it takes. */
  isSecret(header: string | undefined): boolean {
    return timingSafeEqual(sha256(Buffer.from(header ?? '', 'latin1')), this.#secretDigest)
  }

  /** The Set-Cookie value of a new session. */
  open(): string {
    const body = Buffer.alloc(BODY_BYTES)
    randomBytes(ID_BYTES).copy(body)
    body.writeUIntBE(Math.floor(this.#wallMs() / 1000) + LIFETIME_S, ID_BYTES, EXPIRY_BYTES)
    const value = Buffer.concat([body, this.#sign(body)]).toString('base64url')
    return `${COOKIE_NAME}=${value}; Max-Age=${LIFETIME_S}; ${ATTRIBUTES}`
  }

  isActive(cookieHeader: string | undefined): boolean {
    return this.#activeSessions(cookieHeader).length > 0
  }

  /** Ends the sessions that the cookie names. Returns the Set-Cookie value that clears it. */
  close(cookieHeader: string | undefined): string {
    for (const { id, expiresAtS } of this.#activeSessions(cookieHeader)) this.#revoked.add(id, expiresAtS)
    return `${COOKIE_NAME}=; Max-Age=0; ${ATTRIBUTES}`
  }

  #activeSessions(cookieHeader: string | undefined): Session[] {
    const sessions: Session[] = []
    let seen = 0
    for (const pair of cookieHeader?.split(';') ?? []) {
      const equals = pair.indexOf('=')
      if (pair.slice(0, equals).trim() !== COOKIE_NAME || ++seen > MAX_COOKIES) continue
      const session = this.#read(pair.slice(equals + 1).trim())
      if (session !== undefined) sessions.push(session)
    }
    return sessions
  }

  #read(value: string): Session | undefined {
    const bytes = Buffer.from(value, 'base64url')
    if (bytes.length !== COOKIE_BYTES || bytes.toString('base64url') !== value) return undefined
    const body = bytes.subarray(0, BODY_BYTES)
    if (!timingSafeEqual(bytes.subarray(BODY_BYTES), this.#sign(body))) return undefined
    const id = body.subarray(0, ID_BYTES)
    const expiresAtS = body.readUIntBE(ID_BYTES, EXPIRY_BYTES)
    return expiresAtS <= this.#wallMs() / 1000 || this.#revoked.has(id, expiresAtS) ? undefined : { id, expiresAtS }
  }

  #sign(body: Buffer): Buffer {
    return createHmac('sha256', this.#key).update(body).digest()
  }
}

/** A Cookie header without the session's cookie; undefined when nothing else is in it. */
export function withoutDebugCookie(cookieHeader: string): string | undefined {
  if (!cookieHeader.includes(COOKIE_NAME)) return cookieHeader
  const kept = cookieHeader.split(';').filter((pair) => pair.slice(0, pair.indexOf('=')).trim() !== COOKIE_NAME)
  return kept.length === 0 ? undefined : kept.join(';').trim()
}

interface Session {
  readonly id: Buffer
  readonly expiresAtS: number
}

function sha256(bytes: Buffer): Buffer {
  return createHash('sha256').update(bytes).digest()
}
